// File: kube/kubeconfig.h
//
// Where the API server is and who we are to it: from kubeconfig files (people, tests) or from the
// pod's service account (in a cluster).
//
//   ASSIGN_OR_RETURN(const ApiConfig config,
//                    LoadApiConfig(clock, KubeconfigOptions::FromEnvironment()));
//
// KUBECONFIG may list several files. The first file to set a value wins, and an entry (cluster,
// user, context) of a later file with a known name is dropped whole; missing files of the list are
// skipped. Relative paths are relative to the file they stand in. Not supported, with an error that
// says so: proxy-url, user name and password, auth-provider.
//
// Thread-safety: pure but for reading files. Cost: file reads; call it at the start of a program.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "kube/credentials.h"

namespace asterism::kube {

struct ApiConfig {
  std::string server;           // https://host:port, perhaps with a path
  std::string ca_pem;           // empty: the system's authorities
  std::string tls_server_name;  // empty: the host of `server`
  bool insecure_skip_tls_verify = false;
  std::string namespace_name;  // of the context or the pod; "default" when none is set
  std::shared_ptr<CredentialSource> credentials;  // never null
};

struct KubeconfigOptions {
  std::string path;     // explicit file; must exist
  std::string list;     // KUBECONFIG: files separated by colons
  std::string home;     // HOME, for ~/.kube/config when nothing else is given
  std::string context;  // empty: current-context
  // Where a pod finds its service account; empty host: not in a cluster.
  std::string service_host;
  std::string service_port;
  std::string service_account_folder = "/var/run/secrets/kubernetes.io/serviceaccount";

  static KubeconfigOptions FromEnvironment();
};

// Explicit path, KUBECONFIG, in-cluster, ~/.kube/config: the first that is there.
absl::StatusOr<ApiConfig> LoadApiConfig(const base::Clock& clock, const KubeconfigOptions& options);
absl::StatusOr<ApiConfig> InClusterConfig(const base::Clock& clock,
                                          const KubeconfigOptions& options);

// One file's path (for relative paths and messages) and text.
struct KubeconfigText {
  std::string path;
  std::string text;
};
// `files` in the order of the list. No file but those that entries refer to is read.
absl::StatusOr<ApiConfig> ParseKubeconfig(const base::Clock& clock,
                                          const std::vector<KubeconfigText>& files,
                                          std::string_view context);

}  // namespace asterism::kube
