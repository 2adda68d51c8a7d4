// Throws bytes at a live server over loopback: it must answer or close, and go on serving.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/cut_text.h"
#include "server/health.h"
#include "server/http_server.h"

namespace {

using asterism::server::HttpRequest;
using asterism::server::HttpResponse;
using asterism::server::HttpServer;

class Target {
 public:
  Target() {
    asterism::server::HttpRoutes routes;
    asterism::server::AddHealthRoutes(routes, {});
    routes.Add("POST", "/echo", [](const HttpRequest& request, HttpResponse& response) {
      response.body = request.body;
    });
    auto server = HttpServer::Start(clock_, std::move(routes), metrics_, {.address = "127.0.0.1"});
    CHECK_THAT(server.ok(), server.status().ToString());
    server_ = *std::move(server);
  }

  std::string Exchange(std::string_view bytes) const {
    const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    // Other programs of the machine may have used up the local ports for a moment.
    absl::Status connected = Connect(connection, address);
    for (int tries = 0; tries < 1000 && absl::IsUnavailable(connected); ++tries) {
      poll(nullptr, 0, /*milliseconds=*/10);
      connected = Connect(connection, address);
    }
    CHECK_THAT(connected.ok(), connected.ToString());
    while (!bytes.empty()) {
      const ssize_t sent =
          TEMP_FAILURE_RETRY(send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL));
      if (sent <= 0) {
        break;
      }
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    shutdown(connection, SHUT_WR);
    std::string answer;
    char chunk[4096];
    for (ssize_t got = 0;
         (got = TEMP_FAILURE_RETRY(recv(connection, chunk, sizeof(chunk), 0))) > 0;) {
      answer.append(chunk, static_cast<size_t>(got));
    }
    // A reset instead of a FIN, so that thousands of runs do not use up the local ports.
    const linger hard = {.l_onoff = 1, .l_linger = 0};
    setsockopt(connection, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close(connection);
    return answer;
  }

 private:
  // Unavailable: no local port is free. A connect that a signal interrupts (the fuzzer's own alarm)
  // goes on, and tells its end in SO_ERROR.
  static absl::Status Connect(int connection, const sockaddr_in& address) {
    int error = 0;
    if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      error = errno;
    }
    if (error == EINTR) {
      pollfd wait = {.fd = connection, .events = POLLOUT, .revents = 0};
      TEMP_FAILURE_RETRY(poll(&wait, 1, /*milliseconds=*/10'000));
      socklen_t size = sizeof(error);
      getsockopt(connection, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == EADDRNOTAVAIL) {
      return absl::UnavailableError("no local port is free");
    }
    return error == 0 ? absl::OkStatus()
                      : absl::ErrnoToStatus(error, "the server does not listen any more");
  }

  asterism::base::SystemClock clock_;
  asterism::base::MetricRegistry registry_;
  asterism::server::HttpServerMetrics metrics_{registry_};
  std::unique_ptr<HttpServer> server_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Target& target = *new Target();
  static uint64_t runs = 0;
  const std::string answer =
      target.Exchange(std::string_view(reinterpret_cast<const char*>(data), size));
  CHECK_THAT(answer.empty() || answer.starts_with("HTTP/1.1 "), answer);
  if (++runs % 64 == 0) {
    const std::string health = target.Exchange("GET /healthz HTTP/1.0\r\n\r\n");
    CHECK_THAT(health.starts_with("HTTP/1.1 200 OK\r\n"), health);
  }
  return 0;
}
