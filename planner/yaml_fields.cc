#include <charconv>
#include <string>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "planner/field_table.h"

namespace asterism::planner {
namespace {

std::string_view TrimBlanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\r')) {
    text.remove_prefix(1);
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return text;
}

absl::Status WrongLine(int line, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("YAML, line {}: {}", line, what));
}

// `text` is not empty and has no comment.
absl::Status ReadScalar(std::string_view text, int line, Field& field) {
  if (text.front() == '"' || text.front() == '\'') {
    if (text.size() < 2 || text.back() != text.front() ||
        text.find_first_of("\"'\\", 1) != text.size() - 1) {
      return WrongLine(line, "a quoted text must end in the same quote, without quotes inside");
    }
    field.kind = Field::Kind::kText;
    field.text = text.substr(1, text.size() - 2);
    return absl::OkStatus();
  }
  if (std::string_view("{[&*!|>%@`-?").find(text.front()) != std::string_view::npos &&
      !(text.size() > 1 && text.front() == '-' && text[1] >= '0' && text[1] <= '9')) {
    return WrongLine(line, fmt::format("a value cannot begin with '{}': write a number, true, "
                                       "false or a plain text",
                                       text.front()));
  }
  field.text = text;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) {
    field.kind = Field::Kind::kNumber;
  } else if (text == "true" || text == "false") {
    field.kind = Field::Kind::kBoolean;
  } else {
    field.kind = text == "null" || text == "~" ? Field::Kind::kNull : Field::Kind::kText;
  }
  return absl::OkStatus();
}

// Up to a '#' that begins the line or follows a blank.
std::string_view WithoutComment(std::string_view line) {
  for (size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '#' && (at == 0 || line[at - 1] == ' ')) {
      return line.substr(0, at);
    }
  }
  return line;
}

absl::Status ReadYamlLine(std::string_view content, int line, std::vector<Field>& fields) {
  if (content.find('\t') != std::string_view::npos) {
    return WrongLine(line, "a tab: use spaces");
  }
  if (content.front() == ' ' || content.front() == '-') {
    return WrongLine(line, "lists and nested values are not known here: write `key: value` lines");
  }
  const size_t colon = content.find(':');
  if (colon == std::string_view::npos || colon == 0 ||
      (colon + 1 < content.size() && content[colon + 1] != ' ')) {
    return WrongLine(line, "expected `key: value`");
  }
  Field field;
  field.key = TrimBlanks(content.substr(0, colon));
  const std::string_view value = TrimBlanks(content.substr(colon + 1));
  if (value.empty()) {
    return WrongLine(
        line, fmt::format("{}: has no value: set one or remove the line", field.key.substr(0, 64)));
  }
  RETURN_IF_ERROR(ReadScalar(value, line, field));
  for (const Field& other : fields) {
    if (other.key == field.key) {
      return WrongLine(line, fmt::format("{}: is set twice: keep one", field.key.substr(0, 64)));
    }
  }
  if (fields.size() == kFieldsMax) {
    return WrongLine(line, fmt::format("there are more than {} fields", kFieldsMax));
  }
  fields.push_back(std::move(field));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FieldTable> ParseYamlFields(std::string_view text) {
  if (text.size() > kFieldBytesMax) {
    return absl::InvalidArgumentError(
        fmt::format("YAML: {} bytes are more than {}", text.size(), kFieldBytesMax));
  }
  std::vector<Field> fields;
  for (int line = 1; !text.empty(); ++line) {
    const size_t end = text.find('\n');
    const std::string_view content = WithoutComment(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!TrimBlanks(content).empty()) {
      RETURN_IF_ERROR(ReadYamlLine(content, line, fields));
    }
  }
  return FieldTable(std::move(fields));
}

}  // namespace asterism::planner
