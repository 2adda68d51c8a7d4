#include "operator/ignored_fields.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

namespace asterism::operators {
namespace {

using nlohmann::json;

struct IgnoredField {
  std::string_view path;  // JSON pointer below spec
  // The value that asks for the capability; empty: any value does.
  std::string_view asks;
};

constexpr std::array kIgnored = {
    IgnoredField{"/minGpus", ""},
    IgnoredField{"/movable", "true"},
    IgnoredField{"/nativeGang", "Always"},
    IgnoredField{"/placement/shape", ""},
    IgnoredField{"/failover/mode", "Migrate"},
    IgnoredField{"/checkpoint", ""},
    IgnoredField{"/progress", ""},
};

const json* Find(const json& object, const std::string& pointer) {
  const json::json_pointer path(pointer);
  return object.contains(path) ? &object.at(path) : nullptr;
}

bool Asks(const json& value, std::string_view word) {
  if (word.empty()) {
    return !value.is_null();
  }
  return value.is_string() ? value.get_ref<const std::string&>() == word
                           : value.is_boolean() && value.get<bool>() && word == "true";
}

}  // namespace

std::string IgnoredFields(const json& job, bool launcher) {
  std::vector<std::string> fields;
  const json* spec = Find(job, "/spec");
  if (spec == nullptr) {
    return "";
  }
  for (const IgnoredField& field : kIgnored) {
    const json* value = Find(*spec, std::string(field.path));
    const bool followed = launcher && field.path == "/progress";
    if (value != nullptr && !followed && Asks(*value, field.asks)) {
      fields.push_back("spec" + std::string(field.path));
      std::replace(fields.back().begin(), fields.back().end(), '/', '.');
    }
  }
  const json* levels = Find(*spec, "/placement/levels");
  for (size_t i = 0; levels != nullptr && levels->is_array() && i < levels->size(); ++i) {
    if (Find((*levels)[i], "/maxWaitSeconds") != nullptr) {
      fields.push_back("spec.placement.levels[" + std::to_string(i) + "].maxWaitSeconds");
    }
  }
  return fields.empty() ? "" : "not available yet: " + absl::StrJoin(fields, ", ");
}

}  // namespace asterism::operators
