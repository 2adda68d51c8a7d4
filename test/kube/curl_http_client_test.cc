// Over real TLS sockets: nghttpd serves files by HTTP/2, certificates come from openssl.
#include "kube/curl_http_client.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "base/small_file.h"
#include "fmt/format.h"

namespace asterism::kube {
namespace {

// Binds port 0 and returns the port; the socket listens but nobody accepts.
int Listen(int& port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  socklen_t size = sizeof(address);
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  port = ntohs(address.sin_port);
  listen(socket, 16);
  return socket;
}

int FreePort() {
  int port = 0;
  close(Listen(port));
  return port;
}

std::string ReadAll(const std::string& path) {
  return base::ReadSmallFile(path).value_or("");
}

class Nghttpd {
 public:
  Nghttpd(std::string folder, int port, std::vector<std::string> more) : port_(port) {
    std::vector<std::string> words = {"nghttpd", "-d", folder + "/htdocs", "--address=127.0.0.1"};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(),
                 {fmt::to_string(port), folder + "/server.key", folder + "/server.crt"});
    std::vector<char*> arguments;
    for (std::string& word : words) {
      arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    EXPECT_EQ(posix_spawnp(&process_, "nghttpd", nullptr, nullptr, arguments.data(), environ), 0);
    WaitUntilItListens();
  }
  ~Nghttpd() { Kill(); }

  void Kill() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
      process_ = -1;
    }
  }

 private:
  void WaitUntilItListens() const {
    for (int i = 0; i < 2000; ++i) {
      const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(static_cast<uint16_t>(port_));
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      const bool up = connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
      close(socket);
      if (up) {
        return;
      }
      poll(nullptr, 0, 5);
    }
    ADD_FAILURE() << "nghttpd does not listen";
  }

  const int port_;
  pid_t process_ = -1;
};

class WireTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (std::system("command -v nghttpd > /dev/null && command -v openssl > /dev/null") != 0) {
      return;
    }
    folder_ = ::testing::TempDir() + fmt::format("/kube-wire-{}", getpid());
    std::filesystem::create_directories(folder_ + "/htdocs/api");
    const std::string script = fmt::format(
        R"(cd {} && exec > /dev/null 2>&1
new() {{ openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout $1.key "${{@:2}}"; }}
new ca -x509 -days 2 -subj /CN=ca -out ca.crt
new other -x509 -days 2 -subj /CN=ca -out other.crt
new server -subj /CN=api.test -out server.csr
printf 'subjectAltName=DNS:api.test,IP:127.0.0.1' > san
openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile san -out server.crt
new client -subj /CN=client -out client.csr
openssl x509 -req -in client.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out client.crt)",
        folder_);
    ASSERT_EQ(RunScript(script), 0);
    std::ofstream(folder_ + "/htdocs/api/small") << "hello";
    std::ofstream(folder_ + "/htdocs/api/large") << std::string(3'000'000, 'x');
  }
  static void TearDownTestSuite() {
    if (!folder_.empty()) {
      std::filesystem::remove_all(folder_);
    }
  }
  static int RunScript(const std::string& script) {
    std::string file = folder_ + "/script";
    std::ofstream(file) << script;
    return std::system(("bash " + file).c_str());
  }

  void SetUp() override {
    if (folder_.empty()) {
      GTEST_SKIP() << "SKIPPED: nghttpd or openssl is not installed";
    }
  }

  static CurlOptions Options(int port) {
    CurlOptions options;
    options.server = fmt::format("https://127.0.0.1:{}", port);
    options.ca_pem = ReadAll(folder_ + "/ca.crt");
    return options;
  }
  static HttpRequest Request(std::string target, Lane lane = Lane::kWrite) {
    HttpRequest request;
    request.target = std::move(target);
    request.accept = "*/*";
    request.lane = lane;
    return request;
  }
  static HttpResult Send(HttpClient& http, HttpRequest request) {
    absl::Notification done;
    HttpResult result;
    http.Send(std::move(request), [&](HttpResult answer) {
      result = std::move(answer);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }

  static std::string folder_;
};

std::string WireTest::folder_;

// Counts what it gets.
class Collector final : public HttpStreamHandler {
 public:
  void OnBytes(std::string_view, std::string_view bytes) override {
    bytes_ += bytes.size();
    if (!first_.HasBeenNotified()) {
      first_.Notify();
    }
  }
  void OnEnd(HttpResult result) override {
    result_ = std::move(result);
    end_.Notify();
  }

  std::atomic<size_t> bytes_{0};
  absl::Notification first_;
  absl::Notification end_;
  HttpResult result_;
};

TEST_F(WireTest, GetsAndPostsOnEveryLane) {
  const int port = FreePort();
  Nghttpd server(folder_, port, {"--echo-upload"});
  CurlHttpClient http(Options(port));
  for (const Lane lane : {Lane::kWatch, Lane::kWrite, Lane::kLease}) {
    const HttpResult small = Send(http, Request("/api/small", lane));
    ASSERT_TRUE(small.error.ok()) << small.error;
    EXPECT_EQ(small.code, 200);
    EXPECT_EQ(small.body, "hello");
    EXPECT_EQ(Send(http, Request("/api/large", lane)).body.size(), 3'000'000u);
    const HttpResult missing = Send(http, Request("/api/none", lane));
    EXPECT_TRUE(missing.error.ok());
    EXPECT_EQ(missing.code, 404);
    EXPECT_EQ(missing.content_type, "text/html");
    HttpRequest post = Request("/api/small", lane);
    post.method = "POST";
    post.content_type = "application/json";
    post.body = "{\"a\":1}";
    EXPECT_EQ(Send(http, std::move(post)).body, "{\"a\":1}");
  }
}

TEST_F(WireTest, ManyRequestsAtOnce) {
  const int port = FreePort();
  Nghttpd server(folder_, port, {});
  CurlHttpClient http(Options(port));
  constexpr int kCount = 1000;
  absl::BlockingCounter left(kCount);
  std::atomic<int> good{0};
  for (int i = 0; i < kCount; ++i) {
    http.Send(Request("/api/small"), [&](HttpResult result) {
      good += result.error.ok() && result.body == "hello" ? 1 : 0;
      left.DecrementCount();
    });
  }
  left.Wait();
  EXPECT_EQ(good.load(), kCount);
}

TEST_F(WireTest, TrustIsChecked) {
  const int port = FreePort();
  Nghttpd server(folder_, port, {});
  CurlOptions options = Options(port);
  options.ca_pem = ReadAll(folder_ + "/other.crt");
  {
    CurlHttpClient http(options);
    const HttpResult result = Send(http, Request("/api/small"));
    EXPECT_TRUE(absl::IsUnavailable(result.error));
    EXPECT_FALSE(result.maybe_sent);
    // Credentials may bring a newer authority along.
    HttpRequest request = Request("/api/small");
    Credentials credentials;
    credentials.ca_pem = ReadAll(folder_ + "/ca.crt");
    request.credentials = std::make_shared<const Credentials>(std::move(credentials));
    EXPECT_EQ(Send(http, std::move(request)).code, 200);
  }
  {
    options.insecure_skip_tls_verify = true;
    CurlHttpClient http(options);
    EXPECT_EQ(Send(http, Request("/api/small")).code, 200);
  }
  {
    CurlOptions named = Options(port);
    named.tls_server_name = "api.test";
    CurlHttpClient http(named);
    EXPECT_EQ(Send(http, Request("/api/small")).code, 200);
  }
  CurlOptions misnamed = Options(port);
  misnamed.tls_server_name = "other.test";
  CurlHttpClient http(misnamed);
  EXPECT_FALSE(Send(http, Request("/api/small")).error.ok());
}

TEST_F(WireTest, ClientCertificatesComeFromMemory) {
  const int port = FreePort();
  Nghttpd server(folder_, port, {"--verify-client"});
  CurlHttpClient http(Options(port));
  HttpRequest request = Request("/api/small");
  Credentials credentials;
  credentials.client_certificate_pem = ReadAll(folder_ + "/client.crt");
  credentials.client_key_pem = ReadAll(folder_ + "/client.key");
  request.credentials = std::make_shared<const Credentials>(std::move(credentials));
  EXPECT_EQ(Send(http, std::move(request)).code, 200);
}

TEST_F(WireTest, ALostConnectionEndsStreamsAndANewServerIsFound) {
  const int port = FreePort();
  auto server = std::make_unique<Nghttpd>(folder_, port, std::vector<std::string>{});
  CurlHttpClient http(Options(port));
  EXPECT_EQ(Send(http, Request("/api/small")).code, 200);
  const auto collector = std::make_shared<Collector>();
  auto stream = http.Open(Request("/api/large", Lane::kWatch), collector);
  collector->end_.WaitForNotification();
  EXPECT_TRUE(collector->result_.error.ok());
  EXPECT_EQ(collector->bytes_.load(), 3'000'000u);
  server.reset();
  const HttpResult refused = Send(http, Request("/api/small"));
  EXPECT_FALSE(refused.error.ok());
  const HttpResult again = Send(http, Request("/api/small"));
  EXPECT_FALSE(again.error.ok());
  EXPECT_FALSE(again.maybe_sent);  // connection refused
  server = std::make_unique<Nghttpd>(folder_, port, std::vector<std::string>{});
  EXPECT_EQ(Send(http, Request("/api/small")).code, 200);
}

TEST_F(WireTest, ASilentServerIsGivenUp) {
  int port = 0;
  const int socket = Listen(port);  // accepts nothing
  CurlHttpClient http(Options(port));
  HttpRequest request = Request("/api/small");
  request.timeout = absl::Milliseconds(200);
  const HttpResult result = Send(http, std::move(request));
  EXPECT_TRUE(absl::IsDeadlineExceeded(result.error)) << result.error;
  EXPECT_FALSE(result.maybe_sent);
  close(socket);
}

TEST_F(WireTest, ACancelledStreamSaysNothingMore) {
  int port = 0;
  const int socket = Listen(port);
  CurlHttpClient http(Options(port));
  const auto collector = std::make_shared<Collector>();
  auto stream = http.Open(Request("/api/large", Lane::kWatch), collector);
  stream.reset();
  HttpRequest request = Request("/api/small", Lane::kWatch);
  request.timeout = absl::Milliseconds(100);
  Send(http, std::move(request));  // the lane has seen the cancellation by now
  EXPECT_FALSE(collector->end_.HasBeenNotified());
  close(socket);
}

TEST_F(WireTest, DestructionAnswersWhatIsOpen) {
  int port = 0;
  const int socket = Listen(port);
  std::vector<HttpResult> results;
  std::unique_ptr<HttpStream> stream;
  {
    CurlHttpClient http(Options(port));
    for (int i = 0; i < 3; ++i) {
      http.Send(Request("/api/small"),
                [&](HttpResult result) { results.push_back(std::move(result)); });
    }
    stream = http.Open(Request("/api/large", Lane::kWatch), std::make_shared<Collector>());
  }
  ASSERT_EQ(results.size(), 3u);
  EXPECT_TRUE(absl::IsCancelled(results[0].error));
  stream.reset();  // after its client
  close(socket);
}

}  // namespace
}  // namespace asterism::kube
