// File: kube/credentials.h
//
// Who we are to the API server, and where that comes from: fixed values, a token file that is
// rotated under us, or an exec plug-in of client.authentication.k8s.io/v1.
//
//   ASSIGN_OR_RETURN(auto credentials, config.credentials->Get());
//   ... on 401: config.credentials->Refuse();   // the next Get reads anew
//
// Secrets never reach a log line or an error message.
// Thread-safety: yes. Cost: a lock; a file read once in 50 s; an exec plug-in blocks its caller
// while it runs (for people's machines, at most 60 s).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace asterism::kube {

struct Credentials {
  std::string bearer_token;
  std::string client_certificate_pem;
  std::string client_key_pem;
  std::string ca_pem;  // replaces the cluster's when not empty: it is rotated like the token
};

class CredentialSource {
 public:
  virtual ~CredentialSource() = default;
  virtual absl::StatusOr<std::shared_ptr<const Credentials>> Get() = 0;
  virtual void Refuse() = 0;
};

std::shared_ptr<CredentialSource> FixedCredentials(Credentials credentials);

// Reads `token_path` (and `ca_path` unless empty) again every 50 s, and after Refuse.
std::shared_ptr<CredentialSource> FileCredentials(const base::Clock& clock, std::string token_path,
                                                  std::string ca_path);

struct ExecPlugin {
  std::string command;  // with a slash: a path; without: looked up in PATH
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;
  std::string api_version;   // client.authentication.k8s.io/v1 or v1beta1
  std::string install_hint;  // shown when the command is missing
  std::string cluster_json;  // spec.cluster, when provideClusterInfo is set; else empty
};

// Runs a program and returns its standard output. A seam for tests.
using ProgramRunner = std::function<absl::StatusOr<std::string>(const ExecPlugin& plugin,
                                                                const std::string& exec_info)>;
absl::StatusOr<std::string> RunProgram(const ExecPlugin& plugin, const std::string& exec_info);

// Caches the answer until its expirationTimestamp, or for good when it has none.
std::shared_ptr<CredentialSource> ExecCredentials(const base::Clock& clock, ExecPlugin plugin,
                                                  ProgramRunner runner);

// At most `max_bytes`; errors name the path.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

}  // namespace asterism::kube
