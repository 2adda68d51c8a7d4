#include "kube/kubeconfig.h"

#include <cstdlib>
#include <map>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "kube/kubeconfig_yaml.h"
#include "nlohmann/json.hpp"

namespace asterism::kube {
namespace {

std::string EnvironmentValue(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string ResolvePath(const std::string& file, const std::string& path) {
  if (path.empty() || path.front() == '/') {
    return path;
  }
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? path : file.substr(0, slash + 1) + path;
}

// The value of `KEY-data` (base64) or the content of the file named by `KEY`.
absl::StatusOr<std::string> DataOrFile(const KubeconfigEntry& entry, const std::string& data_key,
                                       const std::string& file_key) {
  if (const std::string data = entry.Get(data_key); !data.empty()) {
    std::string decoded;
    if (!absl::Base64Unescape(data, &decoded)) {
      return entry.Error(data_key, "is not base64");
    }
    return decoded;
  }
  const std::string path = entry.Get(file_key);
  if (path.empty()) {
    return std::string();
  }
  absl::StatusOr<std::string> content = base::ReadSmallFile(ResolvePath(entry.file, path));
  if (!content.ok()) {
    return entry.Error(file_key, std::string(content.status().message()));
  }
  return content;
}

absl::Status ReadCluster(const KubeconfigEntry& cluster, ApiConfig& config) {
  config.server = cluster.Get("server");
  if (!config.server.starts_with("https://") && !config.server.starts_with("http://")) {
    return cluster.Error("server", "must be an URL: https://host:port");
  }
  while (config.server.ends_with('/')) {
    config.server.pop_back();
  }
  if (!cluster.Get("proxy-url").empty()) {
    return cluster.Error("proxy-url", "is not supported: remove it and reach the server directly");
  }
  ASSIGN_OR_RETURN(config.ca_pem,
                   DataOrFile(cluster, "certificate-authority-data", "certificate-authority"));
  config.tls_server_name = cluster.Get("tls-server-name");
  config.insecure_skip_tls_verify = cluster.Get("insecure-skip-tls-verify") == "true";
  if (config.insecure_skip_tls_verify && !config.ca_pem.empty()) {
    return cluster.Error("insecure-skip-tls-verify",
                         "must not be set together with certificate-authority: remove one");
  }
  return absl::OkStatus();
}

// spec.cluster of KUBERNETES_EXEC_INFO.
std::string ClusterInfo(const ApiConfig& config) {
  nlohmann::json info = {{"server", config.server}};
  if (!config.ca_pem.empty()) {
    info["certificate-authority-data"] = absl::Base64Escape(config.ca_pem);
  }
  if (!config.tls_server_name.empty()) {
    info["tls-server-name"] = config.tls_server_name;
  }
  if (config.insecure_skip_tls_verify) {
    info["insecure-skip-tls-verify"] = true;
  }
  return info.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<std::shared_ptr<CredentialSource>> ReadExec(const base::Clock& clock,
                                                           const KubeconfigEntry& user,
                                                           const ApiConfig& config) {
  ExecPlugin plugin = *user.exec;
  if (plugin.command.empty()) {
    return user.Error("exec.command", "is missing");
  }
  if (plugin.command.find('/') != std::string::npos) {
    plugin.command = ResolvePath(user.file, plugin.command);
  }
  if (plugin.api_version != "client.authentication.k8s.io/v1" &&
      plugin.api_version != "client.authentication.k8s.io/v1beta1") {
    return user.Error("exec.apiVersion",
                      "must be client.authentication.k8s.io/v1: update the plug-in");
  }
  if (!plugin.cluster_json.empty()) {
    plugin.cluster_json = ClusterInfo(config);
  }
  return ExecCredentials(clock, std::move(plugin), RunProgram);
}

absl::StatusOr<std::shared_ptr<CredentialSource>> ReadUser(const base::Clock& clock,
                                                           const KubeconfigEntry& user,
                                                           const ApiConfig& config) {
  if (!user.Get("username").empty() || !user.Get("password").empty()) {
    return user.Error("username",
                      "is not supported by API servers since 1.19: use a token, a "
                      "client certificate or exec");
  }
  if (!user.Get("auth-provider").empty()) {
    return user.Error("auth-provider", "was removed from Kubernetes in 1.26: use exec");
  }
  if (user.exec.has_value()) {
    return ReadExec(clock, user, config);
  }
  Credentials credentials;
  ASSIGN_OR_RETURN(credentials.client_certificate_pem,
                   DataOrFile(user, "client-certificate-data", "client-certificate"));
  ASSIGN_OR_RETURN(credentials.client_key_pem, DataOrFile(user, "client-key-data", "client-key"));
  if (credentials.client_certificate_pem.empty() != credentials.client_key_pem.empty()) {
    return user.Error("client-certificate", "and client-key must be set together");
  }
  const std::string token_file = user.Get("tokenFile");
  if (!token_file.empty() && credentials.client_key_pem.empty()) {
    return FileCredentials(clock, ResolvePath(user.file, token_file), "");
  }
  credentials.bearer_token = user.Get("token");
  return FixedCredentials(std::move(credentials));
}

absl::Status MissingEntry(std::string_view kind, std::string_view name, std::string_view remedy) {
  return absl::NotFoundError(fmt::format("kubeconfig: no {} named \"{}\": {}", kind, name, remedy));
}

absl::StatusOr<std::vector<KubeconfigText>> ReadList(const std::string& list) {
  std::vector<KubeconfigText> files;
  for (const absl::string_view path : absl::StrSplit(list, ':', absl::SkipEmpty())) {
    absl::StatusOr<std::string> text = base::ReadSmallFile(std::string(path));
    if (text.ok()) {
      files.push_back({std::string(path), *std::move(text)});
    } else if (!absl::IsNotFound(text.status())) {
      return text.status();
    }
  }
  return files;
}

}  // namespace

KubeconfigOptions KubeconfigOptions::FromEnvironment() {
  KubeconfigOptions options;
  options.list = EnvironmentValue("KUBECONFIG");
  options.home = EnvironmentValue("HOME");
  options.service_host = EnvironmentValue("KUBERNETES_SERVICE_HOST");
  options.service_port = EnvironmentValue("KUBERNETES_SERVICE_PORT");
  return options;
}

absl::StatusOr<ApiConfig> ParseKubeconfig(const base::Clock& clock,
                                          const std::vector<KubeconfigText>& files,
                                          std::string_view context) {
  KubeconfigContent content;
  for (const KubeconfigText& file : files) {
    RETURN_IF_ERROR(MergeKubeconfigYaml(file.path, file.text, content));
  }
  const std::string context_name = context.empty() ? content.current_context : std::string(context);
  if (context_name.empty()) {
    return absl::InvalidArgumentError(
        "kubeconfig: current-context is not set: set it, or name a context");
  }
  const auto found = content.contexts.find(context_name);
  if (found == content.contexts.end()) {
    return MissingEntry("context", context_name, "see contexts[].name");
  }
  const std::string cluster_name = found->second.Get("cluster");
  const auto cluster = content.clusters.find(cluster_name);
  if (cluster == content.clusters.end()) {
    return MissingEntry("cluster", cluster_name, "correct contexts[].context.cluster");
  }
  ApiConfig config;
  RETURN_IF_ERROR(ReadCluster(cluster->second, config));
  config.namespace_name = found->second.Get("namespace");
  if (config.namespace_name.empty()) {
    config.namespace_name = "default";
  }
  const std::string user_name = found->second.Get("user");
  if (user_name.empty()) {
    config.credentials = FixedCredentials({});
    return config;
  }
  const auto user = content.users.find(user_name);
  if (user == content.users.end()) {
    return MissingEntry("user", user_name, "correct contexts[].context.user");
  }
  ASSIGN_OR_RETURN(config.credentials, ReadUser(clock, user->second, config));
  return config;
}

absl::StatusOr<ApiConfig> InClusterConfig(const base::Clock& clock,
                                          const KubeconfigOptions& options) {
  if (options.service_host.empty() || options.service_port.empty()) {
    return absl::FailedPreconditionError(
        "not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
  }
  const std::string& folder = options.service_account_folder;
  const bool ipv6 = options.service_host.find(':') != std::string::npos;
  ApiConfig config;
  config.server = fmt::format("https://{}{}{}:{}", ipv6 ? "[" : "", options.service_host,
                              ipv6 ? "]" : "", options.service_port);
  ASSIGN_OR_RETURN(config.ca_pem, base::ReadSmallFile(folder + "/ca.crt"));
  config.credentials = FileCredentials(clock, folder + "/token", folder + "/ca.crt");
  if (absl::StatusOr<std::string> name = base::ReadSmallFile(folder + "/namespace"); name.ok()) {
    config.namespace_name = *std::move(name);
    absl::StripAsciiWhitespace(&config.namespace_name);
  } else {
    config.namespace_name = "default";
  }
  RETURN_IF_ERROR(WaitForCredentials(*config.credentials).status());
  return config;
}

absl::StatusOr<ApiConfig> LoadApiConfig(const base::Clock& clock,
                                        const KubeconfigOptions& options) {
  if (!options.path.empty()) {
    ASSIGN_OR_RETURN(std::string text, base::ReadSmallFile(options.path));
    return ParseKubeconfig(clock, {{options.path, std::move(text)}}, options.context);
  }
  if (!options.list.empty()) {
    ASSIGN_OR_RETURN(const std::vector<KubeconfigText> files, ReadList(options.list));
    if (files.empty()) {
      return absl::NotFoundError(
          fmt::format("none of the files in KUBECONFIG can be read: {}", options.list));
    }
    return ParseKubeconfig(clock, files, options.context);
  }
  if (!options.service_host.empty()) {
    return InClusterConfig(clock, options);
  }
  const std::string path = options.home + "/.kube/config";
  absl::StatusOr<std::string> text = base::ReadSmallFile(path);
  if (!text.ok()) {
    return absl::NotFoundError(fmt::format(
        "no kubeconfig: set KUBECONFIG or create {} (and this is no pod in a cluster)", path));
  }
  return ParseKubeconfig(clock, {{path, *std::move(text)}}, options.context);
}

}  // namespace asterism::kube
