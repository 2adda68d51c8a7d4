// File: planner/setting.h
//
// Named values of a launch file, in the order in which they are written, and the ways to write
// them: arguments, overrides, JSON, YAML, TOML. A name with points is nested where the format
// nests.
//
//   SettingList list;
//   list.Whole("zero_optimization.stage", 1);
//   list.Switch("sequence-parallel", true);
//   JsonOf(list), ArgumentsOf(list)
//
// What is written is read back by planner/setting_reader.h.
// Thread-safety: values. Cost: linear in the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace asterism::planner {

enum class SettingKind { kSwitch, kBoolean, kNumber, kText, kWords };

struct Setting {
  std::string name;
  SettingKind kind = SettingKind::kText;
  std::string value;  // kWords: separated by blanks; kSwitch: empty
};

class SettingList {
 public:
  void Whole(std::string_view name, int64_t value);
  void Switch(std::string_view name, bool on);  // written when on
  void Boolean(std::string_view name, bool value);
  void Text(std::string_view name, std::string_view value);
  void Words(std::string_view name, const std::vector<std::string>& words);
  void Add(Setting setting) { settings_.push_back(std::move(setting)); }

  const std::vector<Setting>& settings() const { return settings_; }

 private:
  std::vector<Setting> settings_;
};

// {"--name", "value", "--switch"}
std::vector<std::string> ArgumentsOf(const SettingList& list);
// {"name=value", "list=[a,b]"}
std::vector<std::string> OverridesOf(const SettingList& list);
// Each ends with a newline.
std::string JsonOf(const SettingList& list);
std::string YamlOf(const SettingList& list);
std::string TomlOf(const SettingList& list);

// At blanks, commas, brackets and quotes: reads a list however it was written.
std::vector<std::string> SplitWords(std::string_view text);

}  // namespace asterism::planner
