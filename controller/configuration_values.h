// File: controller/configuration_values.h
//
// The kinds of values that a configuration field can have: how each is read from YAML, checked,
// written, and described to people.
//
//   SecondsValue([](Configuration& c) -> absl::Duration& { return c.bind_deadline; }, 1, 3600)
//
// Thread-safety: pure. Cost: as the value.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "controller/complaints.h"
#include "controller/configuration.h"
#include "controller/yaml_tree.h"
#include "fmt/format.h"

namespace asterism::controller {

struct FieldValue {
  std::string values;  // what is allowed, for people
  // Takes the value over, or complains and leaves what was there.
  std::function<void(const YamlNode&, std::string_view path, Configuration&, Complaints&)> read;
  // YAML on one line.
  std::function<std::string(const Configuration&)> write;
  std::function<void(const Configuration& source, Configuration& target)> copy;
};

// Where a value of type T stands.
template <typename T>
using Access = T& (*)(Configuration&);

// Whole milliseconds are kept.
FieldValue SecondsValue(Access<absl::Duration> access, double smallest, double largest);
FieldValue WholeSecondsValue(Access<absl::Duration> access, int smallest, int largest);
FieldValue WholeNumberValue(Access<int> access, int smallest, int largest);
FieldValue PortValue(Access<int> access);
FieldValue SwitchValue(Access<bool> access);

// `check` returns a problem and a remedy, or two empty strings.
using TextCheck = std::pair<std::string, std::string> (*)(std::string_view);
FieldValue TextValue(Access<std::string> access, std::string_view values, TextCheck check);

// `choices` names the values of the enum in their order. `refused` is one of them that is known but
// cannot be had.
template <typename Enum>
FieldValue ChoiceValue(Access<Enum> access, std::vector<std::string_view> choices,
                       std::string_view refused, std::string_view remedy);

// The index of the choice that the node names; complains and returns -1 where there is none.
int ReadChoice(const YamlNode& node, std::string_view path,
               const std::vector<std::string_view>& choices, std::string_view refused,
               std::string_view remedy, Complaints& complaints);

// False, with a complaint, for a list or a map.
bool ExpectScalar(const YamlNode& node, std::string_view path, std::string_view values,
                  Complaints& complaints);

// Accessors hand out references to change; reading goes through here.
template <typename T>
const T& Peek(Access<T> access, const Configuration& configuration) {
  return access(const_cast<Configuration&>(configuration));
}

template <typename T>
std::function<void(const Configuration&, Configuration&)> CopyOf(Access<T> access) {
  return [access](const Configuration& source, Configuration& target) {
    access(target) = Peek(access, source);
  };
}

template <typename Enum>
FieldValue ChoiceValue(Access<Enum> access, std::vector<std::string_view> choices,
                       std::string_view refused, std::string_view remedy) {
  return {fmt::format("{}", fmt::join(choices, ", ")),
          [=](const YamlNode& node, std::string_view path, Configuration& configuration,
              Complaints& complaints) {
            const int choice = ReadChoice(node, path, choices, refused, remedy, complaints);
            if (choice >= 0) {
              access(configuration) = static_cast<Enum>(choice);
            }
          },
          [=](const Configuration& configuration) {
            return std::string(choices[static_cast<size_t>(Peek(access, configuration))]);
          },
          CopyOf(access)};
}

}  // namespace asterism::controller
