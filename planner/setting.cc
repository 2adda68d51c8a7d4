#include "planner/setting.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace asterism::planner {
namespace {

std::string QuotedText(std::string_view text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') {
      quoted += '\\';
    }
    quoted += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
  }
  return quoted + "\"";
}

// As JSON and TOML write it.
std::string QuotedValue(const Setting& setting) {
  switch (setting.kind) {
    case SettingKind::kSwitch:
      return "true";
    case SettingKind::kBoolean:
    case SettingKind::kNumber:
      return setting.value;
    case SettingKind::kText:
      return QuotedText(setting.value);
    case SettingKind::kWords: {
      std::vector<std::string> quoted = SplitWords(setting.value);
      for (std::string& word : quoted) {
        word = QuotedText(word);
      }
      return fmt::format("[{}]", fmt::join(quoted, ", "));
    }
  }
  return "";
}

// Settings of one object: the first part of each name in order of appearance, with what is below.
struct SettingGroup {
  std::string name;
  std::vector<Setting> settings;  // without `name.`
  bool leaf = false;
};

std::vector<SettingGroup> GroupSettings(const std::vector<Setting>& settings) {
  std::vector<SettingGroup> groups;
  for (const Setting& setting : settings) {
    const size_t point = setting.name.find('.');
    const std::string name = setting.name.substr(0, point);
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&name](const auto& each) { return each.name == name; });
    SettingGroup& group = same == groups.end() ? groups.emplace_back() : *same;
    group.name = name;
    group.leaf = point == std::string::npos;
    Setting below = setting;
    below.name = group.leaf ? "" : setting.name.substr(point + 1);
    group.settings.push_back(std::move(below));
  }
  return groups;
}

void WriteJson(const std::vector<Setting>& settings, size_t depth, std::string& text) {
  const std::string indent(2 * depth, ' ');
  const std::vector<SettingGroup> groups = GroupSettings(settings);
  text += "{\n";
  for (size_t index = 0; index < groups.size(); ++index) {
    const SettingGroup& group = groups[index];
    text += fmt::format("{}  {}: ", indent, QuotedText(group.name));
    if (group.leaf) {
      text += QuotedValue(group.settings.front());
    } else {
      WriteJson(group.settings, depth + 1, text);
    }
    text += index + 1 < groups.size() ? ",\n" : "\n";
  }
  text += indent + "}";
}

void WriteYaml(const std::vector<Setting>& settings, size_t depth, std::string& text) {
  const std::string indent(2 * depth, ' ');
  for (const SettingGroup& group : GroupSettings(settings)) {
    if (group.leaf) {
      const Setting& setting = group.settings.front();
      const bool quoted = setting.kind == SettingKind::kWords;
      text += fmt::format("{}{}: {}\n", indent, group.name,
                          quoted ? QuotedValue(setting) : setting.value);
    } else {
      text += fmt::format("{}{}:\n", indent, group.name);
      WriteYaml(group.settings, depth + 1, text);
    }
  }
}

}  // namespace

void SettingList::Whole(std::string_view name, int64_t value) {
  settings_.push_back({std::string(name), SettingKind::kNumber, fmt::format("{}", value)});
}

void SettingList::Switch(std::string_view name, bool on) {
  if (on) {
    settings_.push_back({std::string(name), SettingKind::kSwitch, ""});
  }
}

void SettingList::Boolean(std::string_view name, bool value) {
  settings_.push_back({std::string(name), SettingKind::kBoolean, value ? "true" : "false"});
}

void SettingList::Text(std::string_view name, std::string_view value) {
  settings_.push_back({std::string(name), SettingKind::kText, std::string(value)});
}

void SettingList::Words(std::string_view name, const std::vector<std::string>& words) {
  settings_.push_back(
      {std::string(name), SettingKind::kWords, fmt::format("{}", fmt::join(words, " "))});
}

std::vector<std::string> ArgumentsOf(const SettingList& list) {
  std::vector<std::string> arguments;
  for (const Setting& setting : list.settings()) {
    arguments.push_back("--" + setting.name);
    if (setting.kind == SettingKind::kWords) {
      for (std::string& word : SplitWords(setting.value)) {
        arguments.push_back(std::move(word));
      }
    } else if (setting.kind != SettingKind::kSwitch) {
      arguments.push_back(setting.value);
    }
  }
  return arguments;
}

std::vector<std::string> OverridesOf(const SettingList& list) {
  std::vector<std::string> overrides;
  for (const Setting& setting : list.settings()) {
    std::string value = setting.value;
    if (setting.kind == SettingKind::kSwitch) {
      value = "true";
    } else if (setting.kind == SettingKind::kWords) {
      value = fmt::format("[{}]", fmt::join(SplitWords(setting.value), ","));
    }
    overrides.push_back(fmt::format("{}={}", setting.name, value));
  }
  return overrides;
}

std::string JsonOf(const SettingList& list) {
  std::string text;
  WriteJson(list.settings(), 0, text);
  return text + "\n";
}

std::string YamlOf(const SettingList& list) {
  std::string text;
  WriteYaml(list.settings(), 0, text);
  return text;
}

std::string TomlOf(const SettingList& list) {
  // A table each prefix, in order of appearance; TOML has no way back into an outer table.
  std::vector<SettingGroup> tables;
  for (const Setting& setting : list.settings()) {
    const size_t point = setting.name.rfind('.');
    const std::string name = point == std::string::npos ? "" : setting.name.substr(0, point);
    const auto same = std::find_if(tables.begin(), tables.end(),
                                   [&name](const auto& each) { return each.name == name; });
    SettingGroup& table = same == tables.end() ? tables.emplace_back() : *same;
    table.name = name;
    Setting below = setting;
    below.name = setting.name.substr(point == std::string::npos ? 0 : point + 1);
    table.settings.push_back(std::move(below));
  }
  std::string text;
  for (const SettingGroup& table : tables) {
    text += table.name.empty() ? "" : fmt::format("{}[{}]\n", text.empty() ? "" : "\n", table.name);
    for (const Setting& setting : table.settings) {
      text += fmt::format("{} = {}\n", setting.name, QuotedValue(setting));
    }
  }
  return text;
}

std::vector<std::string> SplitWords(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char letter : text) {
    if (std::string_view(" ,[]\"'").find(letter) == std::string_view::npos) {
      word += letter;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) {
    words.push_back(std::move(word));
  }
  return words;
}

}  // namespace asterism::planner
