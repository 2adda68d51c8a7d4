#include "planner/setting_reader.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/status_macros.h"
#include "fmt/format.h"

namespace asterism::planner {
namespace {

std::string_view TrimValue(std::string_view text) {
  while (!text.empty() && std::string_view(" \t\r").find(text.front()) != std::string_view::npos) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::string_view(" \t\r").find(text.back()) != std::string_view::npos) {
    text.remove_suffix(1);
  }
  return text;
}

// A value as a launch file has it: quoted or not, Python's words for booleans too.
Field FieldOf(std::string_view name, std::string_view text) {
  Field field;
  field.key = name;
  field.kind = Field::Kind::kText;
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
      text.back() == text.front()) {
    field.text = text.substr(1, text.size() - 2);
    return field;
  }
  field.text = text;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) {
    field.kind = Field::Kind::kNumber;
  } else if (text == "true" || text == "True" || text == "false" || text == "False") {
    field.kind = Field::Kind::kBoolean;
    field.text = text.front() == 't' || text.front() == 'T' ? "true" : "false";
  } else if (text == "null" || text == "None" || text == "~") {
    field.kind = Field::Kind::kNull;
  }
  return field;
}

void PutField(Field field, std::vector<Field>& fields) {
  const auto same = std::find_if(fields.begin(), fields.end(),
                                 [&field](const auto& each) { return each.key == field.key; });
  if (same != fields.end()) {
    *same = std::move(field);
  } else if (fields.size() < kFieldsMax) {
    fields.push_back(std::move(field));
  }
}

bool NamesAnOption(std::string_view word) {
  return word.size() > 2 && word.starts_with("--");
}

absl::Status AddField(Field field, std::string_view format, int line, std::vector<Field>& fields) {
  for (const Field& other : fields) {
    if (other.key == field.key) {
      return absl::InvalidArgumentError(fmt::format("{}, line {}: {}: is set twice: keep one",
                                                    format, line, field.key.substr(0, 64)));
    }
  }
  if (fields.size() == kFieldsMax) {
    return absl::InvalidArgumentError(
        fmt::format("{}, line {}: there are more than {} fields", format, line, kFieldsMax));
  }
  fields.push_back(std::move(field));
  return absl::OkStatus();
}

// Up to a '#' outside of quotes that begins the line or follows a blank.
std::string_view WithoutRemark(std::string_view line) {
  char quote = 0;
  for (size_t at = 0; at < line.size(); ++at) {
    if (quote != 0) {
      quote = line[at] == quote ? '\0' : quote;
    } else if (line[at] == '"' || line[at] == '\'') {
      quote = line[at];
    } else if (line[at] == '#' && (at == 0 || line[at - 1] == ' ')) {
      return line.substr(0, at);
    }
  }
  return line;
}

absl::Status CheckSize(std::string_view text, std::string_view format) {
  if (text.size() > kFieldBytesMax) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} bytes are more than {}", format, text.size(), kFieldBytesMax));
  }
  return absl::OkStatus();
}

class YamlReader {
 public:
  absl::StatusOr<FieldTable> Read(std::string_view text) {
    for (line_ = 1; !text.empty(); ++line_) {
      const size_t end = text.find('\n');
      const std::string_view content = WithoutRemark(text.substr(0, end));
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      if (!TrimValue(content).empty() && TrimValue(content) != "---") {
        RETURN_IF_ERROR(ReadLine(content));
      }
    }
    return FieldTable(std::move(fields_));
  }

 private:
  absl::Status Wrong(std::string_view what) const {
    return absl::InvalidArgumentError(fmt::format("YAML, line {}: {}", line_, what));
  }

  absl::Status ReadLine(std::string_view content) {
    const size_t indent = content.find_first_not_of(' ');
    content = TrimValue(content);
    if (content.front() == '-') {
      return absl::OkStatus();  // an entry of a list: none of ours
    }
    while (!outer_.empty() && outer_.back().first >= indent) {
      outer_.pop_back();
    }
    const size_t colon = content.find(':');
    if (colon == std::string_view::npos || colon == 0) {
      return Wrong("expected `key: value`");
    }
    const std::string name =
        (outer_.empty() ? "" : outer_.back().second + ".") + std::string(content.substr(0, colon));
    const std::string_view value = TrimValue(content.substr(colon + 1));
    if (value.empty() || value == "{}") {
      if (outer_.size() >= static_cast<size_t>(kFieldDepthMax)) {
        return Wrong(fmt::format("maps are nested deeper than {}", kFieldDepthMax));
      }
      outer_.emplace_back(indent, name);
      return absl::OkStatus();
    }
    return AddField(FieldOf(name, value), "YAML", line_, fields_);
  }

  int line_ = 0;
  std::vector<std::pair<size_t, std::string>> outer_;  // indent and name of open maps
  std::vector<Field> fields_;
};

}  // namespace

FieldTable ReadArguments(std::span<const std::string> words,
                         std::span<const std::string_view> switches) {
  std::vector<Field> fields;
  for (size_t at = 0; at < words.size(); ++at) {
    std::string_view word = words[at];
    if (!NamesAnOption(word)) {
      continue;
    }
    word.remove_prefix(2);
    const size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    if (equals != std::string_view::npos) {
      PutField(FieldOf(name, word.substr(equals + 1)), fields);
      continue;
    }
    std::string value;
    if (std::find(switches.begin(), switches.end(), name) == switches.end()) {
      for (; at + 1 < words.size() && !NamesAnOption(words[at + 1]); ++at) {
        value += (value.empty() ? "" : " ") + words[at + 1];
      }
    }
    PutField(FieldOf(name, value.empty() ? "true" : value), fields);
  }
  return FieldTable(std::move(fields));
}

FieldTable ReadOverrides(std::span<const std::string> words) {
  std::vector<Field> fields;
  for (const std::string_view word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0 || word.starts_with('-')) {
      continue;
    }
    std::string_view name = word.substr(0, equals);
    while (name.starts_with('+')) {  // Hydra: also where the field is new
      name.remove_prefix(1);
    }
    PutField(FieldOf(name, word.substr(equals + 1)), fields);
  }
  return FieldTable(std::move(fields));
}

absl::StatusOr<FieldTable> ParseNestedYaml(std::string_view text) {
  RETURN_IF_ERROR(CheckSize(text, "YAML"));
  return YamlReader().Read(text);
}

absl::StatusOr<FieldTable> ParseToml(std::string_view text) {
  RETURN_IF_ERROR(CheckSize(text, "TOML"));
  std::vector<Field> fields;
  std::string table;
  for (int line = 1; !text.empty(); ++line) {
    const size_t end = text.find('\n');
    const std::string_view content = TrimValue(WithoutRemark(text.substr(0, end)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (content.empty()) {
      continue;
    }
    if (content.front() == '[') {
      if (content.back() != ']' || content.size() < 3) {
        return absl::InvalidArgumentError(
            fmt::format("TOML, line {}: expected `[table]`: close the bracket", line));
      }
      table = std::string(content.substr(1, content.size() - 2)) + ".";
      continue;
    }
    const size_t equals = content.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return absl::InvalidArgumentError(fmt::format("TOML, line {}: expected `key = value`", line));
    }
    const std::string_view value = TrimValue(content.substr(equals + 1));
    if (value.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("TOML, line {}: has no value: set one or remove the line", line));
    }
    const std::string name = table + std::string(TrimValue(content.substr(0, equals)));
    RETURN_IF_ERROR(AddField(FieldOf(name, value), "TOML", line, fields));
  }
  return FieldTable(std::move(fields));
}

}  // namespace asterism::planner
