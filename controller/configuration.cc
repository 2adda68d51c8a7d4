#include "controller/configuration.h"

#include <utility>

#include "base/status_macros.h"
#include "base/strings.h"
#include "controller/configuration_fields.h"
#include "controller/label_selector.h"
#include "controller/yaml_tree.h"
#include "fmt/format.h"

namespace asterism::controller {
namespace {

constexpr std::string_view kHelpIntroduction = R"(# Configuration of asterism-controller

<!-- Made from the table in controller/configuration_fields.cc: change it there, then run
     ASTERISM_WRITE_DOCS=1 build/ci/test/controller/controller_test --gtest_filter='*Document*' -->

`asterism-controller --config FILE` reads one YAML document. The chart writes it from
`.Values.config` into the ConfigMap `asterism-config`. Every field may be left out or empty: then
the default holds. Unknown fields, aliases, anchors and tags are refused, and all errors are told at
once, as `field: problem: remedy`. `/configz` shows what holds.

)";

constexpr std::string_view kHelpRules = R"(
Rules between fields:

* `leaseDurationSeconds` > `renewDeadlineSeconds` > 1.2 x `retryPeriodSeconds`;
* `ports.https`, `ports.metrics` and `ports.grpc` differ, unless 0;
* `tls.certFile` and `tls.keyFile` are needed with `tls.mode: Files`, and have no use in another mode;
* level names: `[a-z0-9-]`, 1 to 32 characters, unique. The first and the last level have no source,
  each other level has one of these:

| a level with | has as its domains |
|---|---|
| `source: Auto` | for each node the first that says something: its NVLink domain, if that has several nodes; a slice of four nodes of its leaf group; the labels of its cloud; `asterism.dev/declared-LEVEL`. Where nobody says anything about any node: four nodes each, in the order of their names |
| `source: NVLink` | NVLink domains, as the agents measure them |
| `source: LeafGroup` | nodes behind the same leaf switches, from `topology.fabricFiles`, else the innermost label of the cloud |
| `source: {slice: N}`, `source: Slice` | N nodes (4) of a leaf group |
| `source: Tier` | leaf groups that share the switches above them |
| `source: {label: KEY}` | a node label that people or tools write |
| `source: Declared` | `asterism.dev/declared-LEVEL` |

What is measured counts more than what is declared; `{label: KEY}` takes the label whatever is measured.
Labels `asterism.dev/domain-*` are kept for the output of Asterism and are no source.

Fields marked *live* are taken over when the file changes. A change of any other field is logged and
waits for a restart.
)";

// The known fields of the group with that name, and the groups themselves at the top (name "").
std::vector<std::string_view> KeysOf(std::string_view group) {
  std::vector<std::string_view> keys;
  if (group.empty()) {
    keys = {"apiVersion", "kind"};
  }
  for (const ConfigurationField& field : ConfigurationFields()) {
    const std::string_view key = field.group() == group ? field.key()
                                 : group.empty()        ? field.group()
                                                        : std::string_view();
    if (!key.empty() && (keys.empty() || keys.back() != key)) {
      keys.push_back(key);
    }
  }
  return keys;
}

// What a person meant by an unknown key: a field of the same place, unless one elsewhere is nearer.
std::string NearestField(std::string_view group, std::string_view key) {
  const std::string_view near_by = NearestName(key, KeysOf(group));
  std::string nearest = group.empty() ? std::string(near_by) : fmt::format("{}.{}", group, near_by);
  size_t distance = Distance(key, near_by);
  for (const ConfigurationField& field : ConfigurationFields()) {
    if (const size_t other = Distance(key, field.key()); other < distance) {
      distance = other;
      nearest = field.path;
    }
  }
  return nearest;
}

void RefuseUnknownKeys(const YamlNode& map, std::string_view group, Complaints& complaints) {
  const std::vector<std::string_view> known = KeysOf(group);
  for (const auto& [key, value] : map.fields) {
    bool found = false;
    for (const std::string_view name : known) {
      found = found || name == key;
    }
    if (!found) {
      complaints.Add(fmt::format("{}{}{}", group, group.empty() ? "" : ".", key),
                     fmt::format("is not a known field (line {})", value.line),
                     fmt::format("did you mean {}?", NearestField(group, key)));
    }
  }
}

void CheckHeader(const YamlNode& root, std::string_view key, std::string_view wanted,
                 Complaints& complaints) {
  const YamlNode* value = root.Find(key);
  if (value == nullptr || value->kind != YamlNode::Kind::kScalar) {
    complaints.Add(key, "is missing", fmt::format("write {}: {}", key, wanted));
  } else if (value->text != wanted) {
    complaints.Add(key, fmt::format("{} is not known", Shown(value->text)),
                   fmt::format("write {}", wanted));
  }
}

// The map that holds the fields of a group; null when the file leaves it out or it is no map.
const YamlNode* FindGroup(const YamlNode& root, std::string_view group) {
  const YamlNode* node = group.empty() ? &root : root.Find(group);
  return node != nullptr && node->kind == YamlNode::Kind::kMap ? node : nullptr;
}

void CheckGroup(const YamlNode& root, std::string_view group, Complaints& complaints) {
  if (const YamlNode* map = FindGroup(root, group)) {
    RefuseUnknownKeys(*map, group, complaints);
  } else if (const YamlNode* node = root.Find(group);
             node != nullptr && node->kind != YamlNode::Kind::kNull) {
    complaints.Add(group, fmt::format("is not a map (line {})", node->line),
                   fmt::format("write {}: {{{}: ...}}", group, KeysOf(group).front()));
  }
}

}  // namespace

absl::StatusOr<Configuration> ParseConfiguration(std::string_view text) {
  ASSIGN_OR_RETURN(const YamlNode root, ParseYamlTree(text));
  if (root.kind != YamlNode::Kind::kMap) {
    return absl::InvalidArgumentError(
        fmt::format("the file is empty or not a map: start it with apiVersion: {} and kind: {}",
                    kConfigurationApiVersion, kConfigurationKind));
  }
  Configuration configuration;
  Complaints complaints;
  CheckHeader(root, "apiVersion", kConfigurationApiVersion, complaints);
  CheckHeader(root, "kind", kConfigurationKind, complaints);
  RefuseUnknownKeys(root, "", complaints);
  std::string_view last_group;
  for (const ConfigurationField& field : ConfigurationFields()) {
    if (field.group() != last_group) {
      last_group = field.group();
      CheckGroup(root, last_group, complaints);
    }
    const YamlNode* map = FindGroup(root, field.group());
    if (const YamlNode* value = map == nullptr ? nullptr : map->Find(field.key())) {
      field.read(*value, configuration, complaints);
    }
  }
  CheckTogether(configuration, complaints);
  RETURN_IF_ERROR(complaints.ToStatus());
  return configuration;
}

std::vector<operators::NodeRequirement> NodeSelectorOf(const Configuration& configuration) {
  // Checked when the configuration was read.
  return ParseLabelSelector(configuration.node_selector).value();
}

std::vector<operators::NodeRequirement> AgentNodesOf(const Configuration& configuration) {
  return ParseLabelSelector(configuration.agents.node_selector).value();
}

std::string ConfigurationToYaml(const Configuration& configuration) {
  const Configuration defaults;
  std::string yaml =
      fmt::format("apiVersion: {}\nkind: {}\n", kConfigurationApiVersion, kConfigurationKind);
  std::string_view last_group;
  for (const ConfigurationField& field : ConfigurationFields()) {
    if (field.group() != last_group && !field.group().empty()) {
      yaml += fmt::format("{}:\n", field.group());
    }
    last_group = field.group();
    const std::string value = field.write(configuration);
    const std::string normal = field.write(defaults);
    yaml += fmt::format("{}{}: {}{}\n", last_group.empty() ? "" : "  ", field.key(), value,
                        value == normal ? "" : fmt::format("  # default: {}", normal));
  }
  return yaml;
}

std::string ConfigurationHelp() {
  const Configuration defaults;
  std::string help(kHelpIntroduction);
  help +=
      fmt::format("The defaults as a file:\n\n```yaml\n{}```\n\n", ConfigurationToYaml(defaults));
  help += "| field | default | values | change | meaning |\n|---|---|---|---|---|\n";
  for (const ConfigurationField& field : ConfigurationFields()) {
    help +=
        fmt::format("| `{}` | `{}` | {} | {} | {} |\n", field.path, field.write(defaults),
                    field.values, field.reload == Reload::kLive ? "live" : "restart", field.help);
  }
  help += kHelpRules;
  return help;
}

ReloadDifference DiffForReload(const Configuration& running, const Configuration& wanted) {
  ReloadDifference difference{running, {}, {}};
  for (const ConfigurationField& field : ConfigurationFields()) {
    if (field.write(running) == field.write(wanted)) {
      continue;
    }
    if (field.reload == Reload::kLive) {
      field.copy(wanted, difference.result);
      difference.applied.emplace_back(field.path);
    } else {
      difference.needs_restart.emplace_back(field.path);
    }
  }
  return difference;
}

}  // namespace asterism::controller
