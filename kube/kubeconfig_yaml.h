// File: kube/kubeconfig_yaml.h
//
// The YAML outline of kubeconfig files, merged; inside kube/. kubeconfig.h gives it meaning.
//
// Thread-safety: none. Cost: one YAML parse a file, files of at most 4 MiB.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "kube/credentials.h"

namespace asterism::kube {

// A named entry of clusters, users or contexts: its scalar fields.
struct KubeconfigEntry {
  std::string file;
  std::string place;  // for messages: users["admin"]
  std::map<std::string, std::string, std::less<>> fields;
  std::optional<ExecPlugin> exec;  // users only

  // Empty when absent.
  std::string Get(std::string_view key) const;
  absl::Status Error(std::string_view field, std::string_view what) const;
};

struct KubeconfigContent {
  std::string current_context;
  std::map<std::string, KubeconfigEntry> clusters;
  std::map<std::string, KubeconfigEntry> users;
  std::map<std::string, KubeconfigEntry> contexts;
};

// Adds what `content` does not have yet.
absl::Status MergeKubeconfigYaml(const std::string& path, const std::string& text,
                                 KubeconfigContent& content);

}  // namespace asterism::kube
