#include "cli/structured_output.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "nlohmann/json.hpp"

namespace asterism::cli {
namespace {

using nlohmann::ordered_json;

std::string Dump(const ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Letters first, then letters, digits and ./_-; and no word that YAML gives a meaning.
bool IsPlainYaml(std::string_view text) {
  constexpr std::array<std::string_view, 9> kWords = {"true", "false", "null", "yes", "no",
                                                      "on",   "off",   "y",    "n"};
  if (text.empty() || std::isalpha(static_cast<unsigned char>(text[0])) == 0) {
    return false;
  }
  std::string lower;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 &&
        std::string_view("./_-").find(c) == std::string_view::npos) {
      return false;
    }
    lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return std::find(kWords.begin(), kWords.end(), lower) == kWords.end();
}

std::string Scalar(const ordered_json& value) {
  const auto* text = value.get_ptr<const std::string*>();
  return text != nullptr && IsPlainYaml(*text) ? *text : Dump(value, -1);
}

bool IsBlock(const ordered_json& value) {
  return value.is_structured() && !value.empty();
}

// Our own values: their depth is a handful.
void WriteYaml(const ordered_json& value, size_t indent, std::string& out) {
  const std::string margin(indent, ' ');
  bool first = true;
  for (const auto& [key, item] : value.items()) {
    // The first line of a mapping inside a list stands behind the dash.
    out += first ? "" : margin;
    first = false;
    out += value.is_array() ? "-" : Scalar(ordered_json(key)) + ":";
    if (!IsBlock(item)) {
      out += " " + Scalar(item) + "\n";
    } else if (value.is_array()) {
      out += " ";
      WriteYaml(item, indent + 2, out);
    } else {
      const size_t deeper = item.is_array() ? indent : indent + 2;
      out += "\n" + std::string(deeper, ' ');
      WriteYaml(item, deeper, out);
    }
  }
}

}  // namespace

std::string StructuredText(const ordered_json& value, OutputFormat format) {
  if (format != OutputFormat::kYaml) {
    return Dump(value, 2) + "\n";
  }
  if (!IsBlock(value)) {
    return Scalar(value) + "\n";
  }
  std::string out;
  WriteYaml(value, 0, out);
  return out;
}

}  // namespace asterism::cli
