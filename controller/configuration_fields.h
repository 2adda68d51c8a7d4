// File: controller/configuration_fields.h
//
// The table behind controller/configuration.h: one row a field, with everything that is known about
// it. Reading, checking, printing, documentation and reload rules all walk over this table, so a
// new field is one row here and one member of Configuration.
//
//   for (const ConfigurationField& field : ConfigurationFields()) {
//     field.read(node, configuration, complaints);
//   }
//
// Thread-safety: the table is immutable. Cost: built once, on first use.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/complaints.h"
#include "controller/configuration.h"
#include "controller/yaml_tree.h"

namespace asterism::controller {

enum class Reload { kLive, kRestart };

struct ConfigurationField {
  std::string_view path;  // "ports.https": a top-level key, or a group and a key
  Reload reload = Reload::kRestart;
  std::string_view help;
  std::string values;  // what is allowed, for people
  // Takes the value over, or complains and leaves the default.
  std::function<void(const YamlNode&, Configuration&, Complaints&)> read;
  // The value as YAML on one line.
  std::function<std::string(const Configuration&)> write;
  std::function<void(const Configuration& source, Configuration& target)> copy;

  std::string_view group() const;  // empty for a top-level field
  std::string_view key() const;
};

const std::vector<ConfigurationField>& ConfigurationFields();

// The rules that need several fields.
void CheckTogether(const Configuration& configuration, Complaints& complaints);

}  // namespace asterism::controller
