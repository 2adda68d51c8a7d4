#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/small_file.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/certificate_files.h"
#include "server/certificate_slot.h"
#include "server/http_server.h"
#include "test/server/http_test_client.h"
#include "test/server/test_certificates.h"

namespace asterism::server {
namespace {

using ::testing::HasSubstr;
using testing::HttpTestClient;
using testing::PemFiles;
using testing::ReplaceFile;
using testing::TestAuthority;
using testing::TestTls;

class TlsTest : public ::testing::Test {
 protected:
  absl::Status StartServer(CertificatePaths paths) {
    options_.clients = paths.client_ca.empty() ? Clients::kAnybody : Clients::kVerified;
    const auto on_reload = [this](const TlsMaterial* loaded) {
      metrics_.CountReload(loaded != nullptr);
    };
    absl::StatusOr<std::unique_ptr<CertificateFiles>> source =
        CertificateFiles::Load(std::move(paths), on_reload);
    if (!source.ok()) {
      return source.status();
    }
    source_ = *std::move(source);
    return StartServer();
  }
  absl::Status StartServer() {
    HttpRoutes routes;
    routes.Add("POST", "/echo", [](const HttpRequest& request, HttpResponse& response) {
      response.body = request.body;
    });
    options_.address = "127.0.0.1";
    options_.sweep_interval = absl::Milliseconds(1);
    options_.certificates = source_.get();
    absl::StatusOr<std::unique_ptr<HttpServer>> server =
        HttpServer::Start(clock_, std::move(routes), metrics_, options_);
    if (server.ok()) {
      server_ = *std::move(server);
    }
    return server.status();
  }

  base::SimClock clock_;
  base::MetricRegistry registry_;
  HttpServerMetrics metrics_{registry_};
  TestAuthority authority_{"authority"};
  PemFiles files_ = authority_.Issue("first");
  HttpServerOptions options_;
  std::unique_ptr<CertificateSource> source_;
  std::unique_ptr<HttpServer> server_;
};

TEST(TestAuthority, LeavesNoKeyBehind) {
  PemFiles files;
  {
    TestAuthority authority("short-lived");
    files = authority.Issue("server");
    ASSERT_TRUE(std::filesystem::exists(files.key_file));
  }
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(files.key_file).parent_path()));
}

TEST_F(TlsTest, ServesManyRequestsOnOneConnection) {
  ASSERT_TRUE(StartServer({files_.certificate_file, files_.key_file, ""}).ok());
  HttpTestClient client(server_->port(), TestTls{.ca_file = authority_.ca_file()});
  ASSERT_TRUE(client.connected());
  EXPECT_EQ(client.ServerName(), "first");
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(client.Post("/echo", "hello").body, "hello");
  }
  const std::string large(5 << 20, 'x');
  EXPECT_TRUE(client.Post("/echo", large).body == large);
}

TEST_F(TlsTest, AReplacedCertificateIsUsedByTheNextConnection) {
  ASSERT_TRUE(StartServer({files_.certificate_file, files_.key_file, ""}).ok());
  const TestTls trust{.ca_file = authority_.ca_file()};
  HttpTestClient old_connection(server_->port(), trust);
  EXPECT_EQ(old_connection.ServerName(), "first");
  const PemFiles next = authority_.Issue("second");
  ReplaceFile(next.certificate_file, files_.certificate_file);
  // Certificate and key do not match for a moment: the old pair stays.
  EXPECT_EQ(HttpTestClient(server_->port(), trust).ServerName(), "first");
  ReplaceFile(next.key_file, files_.key_file);
  EXPECT_EQ(HttpTestClient(server_->port(), trust).ServerName(), "second");
  EXPECT_EQ(old_connection.Post("/echo", "still here").body, "still here");
  const std::string page = registry_.Expose();
  EXPECT_THAT(page, HasSubstr("asterism_http_certificate_reloads_total 1"));
  EXPECT_THAT(page, HasSubstr("asterism_http_certificate_reload_failures_total 1"));
}

TEST_F(TlsTest, LostOrBrokenFilesKeepTheOldCertificate) {
  ASSERT_TRUE(StartServer({files_.certificate_file, files_.key_file, ""}).ok());
  const TestTls trust{.ca_file = authority_.ca_file()};
  std::ofstream(files_.certificate_file) << "-----BEGIN CERTIFICATE-----\ngarbage";
  EXPECT_EQ(HttpTestClient(server_->port(), trust).ServerName(), "first");
  std::remove(files_.key_file.c_str());
  EXPECT_EQ(HttpTestClient(server_->port(), trust).ServerName(), "first");
}

TEST_F(TlsTest, AsksForClientCertificatesWhenAnAuthorityIsSet) {
  TestAuthority clients("clients");
  TestAuthority strangers("strangers");
  ASSERT_TRUE(StartServer({files_.certificate_file, files_.key_file, clients.ca_file()}).ok());
  const PemFiles good = clients.Issue("kube-scheduler", CertificateUse::kClient);
  HttpTestClient known(server_->port(),
                       TestTls{authority_.ca_file(), good.certificate_file, good.key_file});
  EXPECT_EQ(known.Post("/echo", "hello").body, "hello");
  // With TLS 1.3 the client learns of its refusal at the first read.
  const PemFiles bad = strangers.Issue("kube-scheduler", CertificateUse::kClient);
  HttpTestClient stranger(server_->port(),
                          TestTls{authority_.ca_file(), bad.certificate_file, bad.key_file});
  EXPECT_EQ(stranger.Post("/echo", "hello").code, 0);
  HttpTestClient nobody(server_->port(), TestTls{.ca_file = authority_.ca_file()});
  EXPECT_EQ(nobody.Post("/echo", "hello").code, 0);
  // A server's certificate is none for a caller, whoever signed it.
  const PemFiles server = clients.Issue("a-server");
  HttpTestClient impostor(server_->port(),
                          TestTls{authority_.ca_file(), server.certificate_file, server.key_file});
  EXPECT_EQ(impostor.Post("/echo", "hello").code, 0);
  EXPECT_EQ(known.Post("/echo", "again").body, "again");
  EXPECT_THAT(registry_.Expose(), HasSubstr("asterism_http_handshake_failures_total 3"));
}

TEST_F(TlsTest, PlainAndGarbageClientsDoNotDisturbOthers) {
  ASSERT_TRUE(StartServer({files_.certificate_file, files_.key_file, ""}).ok());
  HttpTestClient plain(server_->port());
  EXPECT_EQ(plain.Post("/echo", "hello").code, 0);
  HttpTestClient garbage(server_->port());
  garbage.Send(std::string(100000, '\x16'));
  HttpTestClient half(server_->port());
  half.Send("\x16\x03\x01");
  EXPECT_EQ(HttpTestClient(server_->port(), TestTls{.ca_file = authority_.ca_file()})
                .Post("/echo", "hello")
                .body,
            "hello");
}

TEST_F(TlsTest, AStalledHandshakeIsCut) {
  ASSERT_TRUE(StartServer({files_.certificate_file, files_.key_file, ""}).ok());
  HttpTestClient half(server_->port());
  half.Send("\x16\x03\x01");
  for (int i = 0; i < 5000 && !half.Readable(2); ++i) {
    clock_.Advance(absl::Seconds(1));
  }
  EXPECT_TRUE(half.AtEnd());
}

TEST_F(TlsTest, BadFilesAreNamedAtStart) {
  const auto start = [&](CertificatePaths paths) {
    return std::string(StartServer(std::move(paths)).message());
  };
  EXPECT_THAT(start({"/nowhere.pem", files_.key_file, ""}),
              AllOf(HasSubstr("certificate file: cannot read /nowhere.pem"),
                    HasSubstr("check that it exists")));
  EXPECT_THAT(start({files_.certificate_file, "/nowhere.pem", ""}),
              HasSubstr("key file: cannot read /nowhere.pem"));
  EXPECT_THAT(start({files_.certificate_file, authority_.Issue("other").key_file, ""}),
              AllOf(HasSubstr("TLS key: refused"), HasSubstr("check the files")));
  EXPECT_THAT(start({files_.certificate_file, files_.key_file, "/nowhere.pem"}),
              HasSubstr("client CA file: cannot read /nowhere.pem"));
}

TEST_F(TlsTest, ASlotServesNobodyWhoVerifiesUntilItIsFilled) {
  absl::StatusOr<std::unique_ptr<CertificateSlot>> slot = CertificateSlot::Make(clock_);
  ASSERT_TRUE(slot.ok()) << slot.status();
  CertificateSlot& filled = **slot;
  source_ = *std::move(slot);
  options_.clients = Clients::kVerified;
  ASSERT_TRUE(StartServer().ok());
  const PemFiles caller = authority_.Issue("kube-scheduler", CertificateUse::kClient);
  const TestTls mutual{authority_.ca_file(), caller.certificate_file, caller.key_file};
  EXPECT_FALSE(HttpTestClient(server_->port(), mutual).connected());
  const auto put = [&](const PemFiles& files) {
    return filled.Put({.certificate = *base::ReadSmallFile(files.certificate_file),
                       .key = *base::ReadSmallFile(files.key_file),
                       .client_authorities = authority_.authority().certificate});
  };
  ASSERT_TRUE(put(files_).ok());
  EXPECT_EQ(HttpTestClient(server_->port(), mutual).Post("/echo", "hello").body, "hello");
  // A key that is not the certificate's is refused, and changes nothing.
  const PemFiles second = authority_.Issue("second");
  EXPECT_THAT(std::string(put({second.certificate_file, files_.key_file}).message()),
              HasSubstr("TLS key"));
  EXPECT_EQ(HttpTestClient(server_->port(), mutual).ServerName(), "first");
  ASSERT_TRUE(put(second).ok());
  EXPECT_EQ(HttpTestClient(server_->port(), mutual).ServerName(), "second");
}

TEST_F(TlsTest, ConnectionsGoOnWhileTheCertificateChanges) {
  absl::StatusOr<std::unique_ptr<CertificateSlot>> slot = CertificateSlot::Make(clock_);
  ASSERT_TRUE(slot.ok()) << slot.status();
  CertificateSlot& filled = **slot;
  source_ = *std::move(slot);
  ASSERT_TRUE(StartServer().ok());
  std::atomic<bool> done{false};
  std::thread renewer([&] {
    for (int i = 0; !done; ++i) {
      const PemFiles files = authority_.Issue(fmt::format("number-{}", i));
      EXPECT_TRUE(filled
                      .Put({.certificate = *base::ReadSmallFile(files.certificate_file),
                            .key = *base::ReadSmallFile(files.key_file),
                            .client_authorities = ""})
                      .ok());
    }
  });
  while (filled.Current()->certificate.empty() ||
         !HttpTestClient(server_->port(), TestTls{.ca_file = authority_.ca_file()}).connected()) {
  }
  for (int i = 0; i < 100; ++i) {
    HttpTestClient client(server_->port(), TestTls{.ca_file = authority_.ca_file()});
    ASSERT_EQ(client.Post("/echo", "hello").body, "hello");
  }
  done = true;
  renewer.join();
}

}  // namespace
}  // namespace asterism::server
