#include "kube/kubeconfig_yaml.h"

#include <algorithm>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "yaml-cpp/yaml.h"

namespace asterism::kube {
namespace {

constexpr int kMaxYamlDepth = 64;
constexpr size_t kMaxEntries = 10'000;

// yaml-cpp 0.7 parses by recursion: refuse texts that nest deeper than any kubeconfig does.
bool NestsTooDeep(const std::string& text) {
  int depth = 0;
  int dashes = 0;  // "- - - -" opens a level each
  for (const char c : text) {
    if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      depth = std::max(0, depth - 1);
    }
    if (c == '-' || c == '?' || c == ':') {
      ++dashes;
    } else if (c != ' ') {
      dashes = 0;
    }
    if (depth > kMaxYamlDepth || dashes > kMaxYamlDepth) {
      return true;
    }
  }
  return false;
}

// Empty for a key that is missing, which yaml-cpp makes a node that throws at every other question.
std::string Scalar(const YAML::Node& node) {
  return node.IsDefined() && node.IsScalar() ? node.Scalar() : std::string();
}

absl::StatusOr<ExecPlugin> ReadExecNode(const KubeconfigEntry& entry, const YAML::Node& node) {
  ExecPlugin plugin;
  if (!node.IsMap()) {
    return entry.Error("exec", "must be a map");
  }
  plugin.command = Scalar(node["command"]);
  plugin.api_version = Scalar(node["apiVersion"]);
  plugin.install_hint = Scalar(node["installHint"]);
  if (Scalar(node["provideClusterInfo"]) == "true") {
    plugin.cluster_json = "{}";
  }
  if (Scalar(node["interactiveMode"]) == "Always") {
    return entry.Error("exec.interactiveMode", "Always is not supported: no terminal is given");
  }
  for (const YAML::Node& argument : node["args"]) {
    plugin.args.push_back(Scalar(argument));
  }
  for (const YAML::Node& variable : node["env"]) {
    if (!variable.IsMap() || Scalar(variable["name"]).empty()) {
      return entry.Error("exec.env", "must be a list of {name, value}");
    }
    plugin.env.emplace_back(Scalar(variable["name"]), Scalar(variable["value"]));
  }
  return plugin;
}

absl::Status ReadEntry(const std::string& path, const YAML::Node& node, const char* list,
                       const char* body, std::map<std::string, KubeconfigEntry>& entries) {
  const std::string name = node.IsMap() ? Scalar(node["name"]) : std::string();
  if (name.empty()) {
    return absl::InvalidArgumentError(fmt::format("{}: {}[]: an entry has no name", path, list));
  }
  if (entries.size() >= kMaxEntries) {
    return absl::InvalidArgumentError(fmt::format("{}: {}: too many entries", path, list));
  }
  if (entries.contains(name)) {
    return absl::OkStatus();  // an earlier file has it
  }
  KubeconfigEntry entry;
  entry.file = path;
  entry.place = fmt::format("{}[\"{}\"]", list, name);
  const YAML::Node content = node[body];
  if (content && !content.IsMap() && !content.IsNull()) {
    return entry.Error(body, "must be a map");
  }
  if (content && content.IsMap()) {
    for (const auto& field : content) {
      const std::string key = Scalar(field.first);
      if (key == "exec") {
        ASSIGN_OR_RETURN(entry.exec, ReadExecNode(entry, field.second));
      } else if (field.second.IsScalar()) {
        entry.fields.emplace(key, field.second.Scalar());
      } else if (key == "auth-provider") {
        entry.fields.emplace(key, "set");
      }
    }
  }
  entries.emplace(name, std::move(entry));
  return absl::OkStatus();
}

absl::Status ReadEntries(const std::string& path, const YAML::Node& root, const char* list,
                         const char* body, std::map<std::string, KubeconfigEntry>& entries) {
  const YAML::Node nodes = root[list];
  if (!nodes || nodes.IsNull()) {
    return absl::OkStatus();
  }
  if (!nodes.IsSequence()) {
    return absl::InvalidArgumentError(fmt::format("{}: {} must be a list", path, list));
  }
  for (const YAML::Node& node : nodes) {
    RETURN_IF_ERROR(ReadEntry(path, node, list, body, entries));
  }
  return absl::OkStatus();
}

absl::Status MergeDocument(const std::string& path, const YAML::Node& root,
                           KubeconfigContent& content) {
  if (root.IsNull()) {
    return absl::OkStatus();
  }
  if (!root.IsMap()) {
    return absl::InvalidArgumentError(fmt::format("{}: not a kubeconfig (want a map)", path));
  }
  if (content.current_context.empty()) {
    content.current_context = Scalar(root["current-context"]);
  }
  RETURN_IF_ERROR(ReadEntries(path, root, "clusters", "cluster", content.clusters));
  RETURN_IF_ERROR(ReadEntries(path, root, "users", "user", content.users));
  return ReadEntries(path, root, "contexts", "context", content.contexts);
}

}  // namespace

std::string KubeconfigEntry::Get(std::string_view key) const {
  const auto found = fields.find(key);
  return found == fields.end() ? std::string() : found->second;
}

absl::Status KubeconfigEntry::Error(std::string_view field, std::string_view what) const {
  return absl::InvalidArgumentError(fmt::format("{}: {}: {} {}", file, place, field, what));
}

absl::Status MergeKubeconfigYaml(const std::string& path, const std::string& text,
                                 KubeconfigContent& content) {
  if (NestsTooDeep(text)) {
    return absl::InvalidArgumentError(fmt::format("{}: nested too deep", path));
  }
  try {
    return MergeDocument(path, YAML::Load(text), content);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(fmt::format("{}: not valid YAML: {}", path, error.what()));
  }
}

}  // namespace asterism::kube
