#include "kube/kubeconfig.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "fmt/format.h"

namespace asterism::kube {
namespace {

using ::testing::HasSubstr;

constexpr char kBasic[] = R"(
apiVersion: v1
kind: Config
current-context: main
clusters:
- name: here
  cluster: {server: "https://10.0.0.1:6443/", certificate-authority-data: Q0E=}
users:
- name: admin
  user: {token: secret}
contexts:
- name: main
  context: {cluster: here, user: admin, namespace: research}
)";

class KubeconfigTest : public ::testing::Test {
 protected:
  KubeconfigTest() : folder_(::testing::TempDir() + "/kubeconfig") {
    std::filesystem::create_directories(folder_);
  }
  ~KubeconfigTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }
  absl::StatusOr<ApiConfig> Parse(const std::string& text, std::string_view context = "") const {
    return ParseKubeconfig(clock_, {{folder_ + "/config", text}}, context);
  }
  // kBasic with one piece replaced.
  static std::string With(const std::string& from, const std::string& to) {
    std::string text = kBasic;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }
  void ExpectError(const std::string& text, const std::string& message) const {
    const absl::StatusOr<ApiConfig> config = Parse(text);
    ASSERT_FALSE(config.ok()) << message;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(message));
  }

  base::SimClock clock_;
  const std::string folder_;
};

TEST_F(KubeconfigTest, ReadsClusterUserAndContext) {
  const absl::StatusOr<ApiConfig> config = Parse(kBasic);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://10.0.0.1:6443");
  EXPECT_EQ(config->ca_pem, "CA");
  EXPECT_EQ(config->namespace_name, "research");
  EXPECT_EQ(WaitForCredentials(*config->credentials).value()->bearer_token, "secret");
}

TEST_F(KubeconfigTest, TheFirstFileWinsAndALaterEntryOfThatNameIsDroppedWhole) {
  const std::string later = R"(
current-context: other
clusters:
- {name: here, cluster: {server: "https://wrong", tls-server-name: wrong}}
- {name: there, cluster: {server: "https://there"}}
users:
- {name: admin, user: {token: wrong}}
contexts:
- {name: other, context: {cluster: there, user: admin}}
)";
  absl::StatusOr<ApiConfig> config = ParseKubeconfig(clock_, {{"/a", kBasic}, {"/b", later}}, "");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://10.0.0.1:6443");
  EXPECT_EQ(config->tls_server_name, "");
  config = ParseKubeconfig(clock_, {{"/a", kBasic}, {"/b", later}}, "other");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->server, "https://there");
  EXPECT_EQ(config->namespace_name, "default");
  EXPECT_EQ(WaitForCredentials(*config->credentials).value()->bearer_token, "secret");
}

TEST_F(KubeconfigTest, PathsAreRelativeToTheirFile) {
  Write("ca.crt", "AUTHORITY");
  Write("cert.pem", "CERT");
  Write("key.pem", "KEY");
  std::string text = With("certificate-authority-data: Q0E=", "certificate-authority: ca.crt");
  text.replace(text.find("token: secret"), 13,
               "client-certificate: cert.pem, client-key: ./key.pem");
  const absl::StatusOr<ApiConfig> config = Parse(text);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->ca_pem, "AUTHORITY");
  EXPECT_EQ(WaitForCredentials(*config->credentials).value()->client_certificate_pem, "CERT");
  EXPECT_EQ(WaitForCredentials(*config->credentials).value()->client_key_pem, "KEY");
}

TEST_F(KubeconfigTest, ATokenFileIsReadAgain) {
  Write("token", "one\n");
  const absl::StatusOr<ApiConfig> config = Parse(With("token: secret", "tokenFile: token"));
  ASSERT_TRUE(config.ok()) << config.status();
  const auto token = [&] { return WaitForCredentials(*config->credentials).value()->bearer_token; };
  EXPECT_EQ(token(), "one");
  Write("token", "two");
  EXPECT_EQ(token(), "one");
  clock_.Advance(absl::Seconds(50));
  EXPECT_EQ(token(), "two");
  Write("token", "three");
  config->credentials->Refuse(WaitForCredentials(*config->credentials).value());
  EXPECT_EQ(token(), "three");
  // A late 401 to the token before it.
  config->credentials->Refuse(std::make_shared<const Credentials>());
  Write("token", "four");
  EXPECT_EQ(token(), "three");
  // A file that is missing for a moment does not throw away a token that was not refused.
  std::filesystem::remove(folder_ + "/token");
  clock_.Advance(absl::Seconds(51));
  EXPECT_EQ(token(), "three");
  config->credentials->Refuse(WaitForCredentials(*config->credentials).value());
  EXPECT_FALSE(WaitForCredentials(*config->credentials).ok());
}

TEST_F(KubeconfigTest, ErrorsNameFieldAndRemedy) {
  ExpectError(With("current-context: main", ""), "current-context is not set");
  ExpectError(With("current-context: main", "current-context: x"), "no context named \"x\"");
  ExpectError(With("cluster: here", "cluster: x"), "no cluster named \"x\"");
  ExpectError(With("user: admin", "user: x"), "no user named \"x\"");
  ExpectError(With("\"https://10.0.0.1:6443/\"", "10.0.0.1"), "clusters[\"here\"]: server");
  ExpectError(With("Q0E=", "'?'"), "certificate-authority-data is not base64");
  ExpectError(With("certificate-authority-data: Q0E=", "certificate-authority: none.crt"),
              "cannot read ");
  ExpectError(With("certificate-authority-data: Q0E=", "proxy-url: http://p"),
              "proxy-url is not supported");
  ExpectError(With("Q0E=", "Q0E=, insecure-skip-tls-verify: true"), "remove one");
  ExpectError(With("token: secret", "username: u, password: p"), "use a token");
  ExpectError(With("token: secret", "auth-provider: {name: gcp}"), "use exec");
  ExpectError(With("token: secret", "client-key-data: S0VZ"), "must be set together");
  ExpectError(With("token: secret",
                   "exec: {apiVersion: client.authentication.k8s.io/v1alpha1, "
                   "command: x}"),
              "exec.apiVersion");
  ExpectError("[1, 2]", "not a kubeconfig");
  ExpectError("{", "not valid YAML");
  ExpectError("clusters: {}", "clusters must be a list");
  ExpectError("clusters: [{}]", "an entry has no name");
  ExpectError(std::string(5000, '['), "nested too deep");
}

TEST_F(KubeconfigTest, ChoosesTheSource) {
  KubeconfigOptions options;
  options.home = folder_;
  EXPECT_THAT(std::string(LoadApiConfig(clock_, options).status().message()),
              HasSubstr("set KUBECONFIG"));
  std::filesystem::create_directories(folder_ + "/.kube");
  Write(".kube/config", With("10.0.0.1", "home"));
  EXPECT_EQ(LoadApiConfig(clock_, options)->server, "https://home:6443");

  Write("token", "pod-token");
  Write("ca.crt", "CA1");
  Write("namespace", "system\n");
  options.service_host = "fd00::1";
  options.service_port = "443";
  options.service_account_folder = folder_;
  absl::StatusOr<ApiConfig> config = LoadApiConfig(clock_, options);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://[fd00::1]:443");
  EXPECT_EQ(config->namespace_name, "system");
  EXPECT_EQ(WaitForCredentials(*config->credentials).value()->bearer_token, "pod-token");
  EXPECT_EQ(WaitForCredentials(*config->credentials).value()->ca_pem, "CA1");

  options.list = folder_ + "/missing:" + Write("config", kBasic);
  EXPECT_EQ(LoadApiConfig(clock_, options)->server, "https://10.0.0.1:6443");
  options.list = folder_ + "/missing";
  EXPECT_FALSE(LoadApiConfig(clock_, options).ok());
  options.path = folder_ + "/missing";
  EXPECT_THAT(std::string(LoadApiConfig(clock_, options).status().message()),
              HasSubstr("cannot read "));
}

TEST_F(KubeconfigTest, RunsAnExecPlugin) {
  const std::string program = Write("plugin", R"(#!/bin/sh
echo "run" >> "$(dirname "$0")/runs"
case "$KUBERNETES_EXEC_INFO" in *ExecCredential*10.0.0.1*) ;; *) exit 3;; esac
[ "$1" = "--for" ] && [ "$REGION" = "x" ] || exit 4
echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1",'
echo '"status":{"token":"from-plugin","expirationTimestamp":"2026-01-01T01:00:00Z"}}'
)");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const absl::StatusOr<ApiConfig> config =
      Parse(With("{token: secret}",
                 "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, "
                 "args: [--for], env: [{name: REGION, value: x}], provideClusterInfo: true}}"));
  ASSERT_TRUE(config.ok()) << config.status();
  const auto runs = [&] { return std::filesystem::file_size(folder_ + "/runs") / 4; };
  for (int i = 0; i < 3; ++i) {
    const auto credentials = WaitForCredentials(*config->credentials);
    ASSERT_TRUE(credentials.ok()) << credentials.status();
    EXPECT_EQ((*credentials)->bearer_token, "from-plugin");
  }
  EXPECT_EQ(runs(), 1u);
  clock_.Advance(absl::Hours(1));  // it has expired
  EXPECT_TRUE(WaitForCredentials(*config->credentials).ok());
  EXPECT_EQ(runs(), 2u);
}

}  // namespace
}  // namespace asterism::kube
