// File: kube/credentials.h
//
// Who we are to the API server, and where that comes from: fixed values, a token file that is
// rotated under us, or an exec plug-in of client.authentication.k8s.io/v1.
//
//   source.Get([](absl::StatusOr<CredentialsPtr> credentials) { ... });
//   ... on 401: source.Refuse(credentials);   // the next Get has others, or an error
//
// Secrets never reach a log line or an error message.
// Thread-safety: yes. Cost: a lock; a file read once in 50 s on the caller's thread. An exec
// plug-in takes up to 60 s on a thread of its own, which runs it one at a time, ahead of the end of
// what it gave before, and after a failure only after a pause.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
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

using CredentialsPtr = std::shared_ptr<const Credentials>;
using CredentialsCallback = absl::AnyInvocable<void(absl::StatusOr<CredentialsPtr>)>;

class CredentialSource {
 public:
  virtual ~CredentialSource() = default;
  // `done` is called before this returns unless the answer has to be waited for, else on a thread
  // of the source.
  virtual void Get(CredentialsCallback done) = 0;
  // The server did not accept them. Any but those of the last Get are ignored.
  virtual void Refuse(const CredentialsPtr& refused) = 0;
};

// Blocks until they are there: for the start of a program.
absl::StatusOr<CredentialsPtr> WaitForCredentials(CredentialSource& source);

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

// Runs a program and returns its standard output; ends it once `cancelled` is true. A seam for
// tests.
using ProgramRunner = std::function<absl::StatusOr<std::string>(
    const ExecPlugin& plugin, const std::string& exec_info, const std::atomic<bool>& cancelled)>;
absl::StatusOr<std::string> RunProgram(const ExecPlugin& plugin, const std::string& exec_info,
                                       const std::atomic<bool>& cancelled);

// Keeps the answer until its expirationTimestamp, or for good when it has none.
std::shared_ptr<CredentialSource> ExecCredentials(const base::Clock& clock, ExecPlugin plugin,
                                                  ProgramRunner runner);

}  // namespace asterism::kube
