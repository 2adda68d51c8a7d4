#include "cli/yaml_document.h"

#include <charconv>
#include <string>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "yaml-cpp/yaml.h"

namespace asterism::cli {
namespace {

using nlohmann::json;

absl::Status WrongAt(const YAML::Mark& mark, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("line {}: {}", mark.line + 1, what));
}

json ScalarOf(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") {  // quoted
    return text;
  }
  if (text == "true" || text == "false") {
    return text == "true";
  }
  if (text == "null" || text == "~" || text.empty()) {
    return nullptr;
  }
  const char* const end = text.data() + text.size();
  int64_t whole = 0;
  if (const auto read = std::from_chars(text.data(), end, whole);
      read.ec == std::errc() && read.ptr == end) {
    return whole;
  }
  double number = 0;
  if (const auto read = std::from_chars(text.data(), end, number);
      read.ec == std::errc() && read.ptr == end && number - number == 0) {
    return number;
  }
  return text;
}

class YamlConverter {
 public:
  absl::StatusOr<json> Convert(const YAML::Node& node, int depth) {
    if (depth > kYamlDepthMax) {
      return WrongAt(node.Mark(), fmt::format("values are nested deeper than {}", kYamlDepthMax));
    }
    if (++nodes_ > kYamlNodesMax) {
      return WrongAt(node.Mark(), fmt::format("there are more than {} values", kYamlNodesMax));
    }
    if (node.IsScalar()) {
      return ScalarOf(node);
    }
    if (node.IsSequence()) {
      json list = json::array();
      for (const YAML::Node& each : node) {
        ASSIGN_OR_RETURN(json value, Convert(each, depth + 1));
        list.push_back(std::move(value));
      }
      return list;
    }
    if (node.IsMap()) {
      return ConvertMap(node, depth);
    }
    return json(nullptr);
  }

 private:
  absl::StatusOr<json> ConvertMap(const YAML::Node& node, int depth) {
    json object = json::object();
    for (const auto& each : node) {
      if (!each.first.IsScalar()) {
        return WrongAt(each.first.Mark(), "a key must be a plain word");
      }
      const std::string& key = each.first.Scalar();
      if (object.contains(key)) {
        return WrongAt(each.first.Mark(),
                       fmt::format("{}: is set twice: keep one", key.substr(0, 64)));
      }
      ASSIGN_OR_RETURN(object[key], Convert(each.second, depth + 1));
    }
    return object;
  }

  size_t nodes_ = 0;
};

// The parser recurses: what is deeper than the bound is told before it sees it.
bool IsTooDeep(std::string_view text) {
  int depth = 0;
  for (const char letter : text) {
    depth += letter == '{' || letter == '[' ? 1 : letter == '}' || letter == ']' ? -1 : 0;
    if (depth > kYamlDepthMax) {
      return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<json> ReadYamlDocument(std::string_view text) {
  if (text.size() > kYamlBytesMax) {
    return absl::InvalidArgumentError(
        fmt::format("{} bytes are more than {}", text.size(), kYamlBytesMax));
  }
  if (IsTooDeep(text)) {
    return absl::InvalidArgumentError(
        fmt::format("values are nested deeper than {}", kYamlDepthMax));
  }
  try {
    return YamlConverter().Convert(YAML::Load(std::string(text)), 0);
  } catch (const YAML::Exception& error) {
    return WrongAt(error.mark, error.msg);
  }
}

}  // namespace asterism::cli
