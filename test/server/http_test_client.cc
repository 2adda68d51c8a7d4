#include "test/server/http_test_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/check.h"
#include "base/strings.h"
#include "fmt/format.h"

namespace asterism::server::testing {

std::string TestAnswer::Header(std::string_view name) const {
  size_t begin = 0;
  while (begin < head.size()) {
    const size_t end = std::min(head.find("\r\n", begin), head.size());
    const std::string_view line = std::string_view(head).substr(begin, end - begin);
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos &&
        absl::EqualsIgnoreCase(base::ToAbsl(line.substr(0, colon)), base::ToAbsl(name))) {
      return std::string(absl::StripAsciiWhitespace(base::ToAbsl(line.substr(colon + 1))));
    }
    begin = end + 2;
  }
  return "";
}

HttpTestClient::HttpTestClient(uint16_t port) : HttpTestClient(port, TestHost{}) {}

HttpTestClient::HttpTestClient(uint16_t port, TestHost from) {
  Connect(port, from);
}

HttpTestClient::HttpTestClient(uint16_t port, const TestTls& tls) {
  Connect(port, {});
  context_ = SSL_CTX_new(TLS_client_method());
  CHECK_THAT(SSL_CTX_load_verify_locations(context_, tls.ca_file.c_str(), nullptr) == 1, "CA");
  SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
  if (!tls.certificate_file.empty()) {
    CHECK_THAT(
        SSL_CTX_use_certificate_chain_file(context_, tls.certificate_file.c_str()) == 1 &&
            SSL_CTX_use_PrivateKey_file(context_, tls.key_file.c_str(), SSL_FILETYPE_PEM) == 1,
        "client certificate");
  }
  tls_ = SSL_new(context_);
  SSL_set_fd(tls_, socket_);
  connected_ = connected_ && SSL_connect(tls_) == 1;
}

HttpTestClient::~HttpTestClient() {
  if (tls_ != nullptr) {
    SSL_free(tls_);
    SSL_CTX_free(context_);
  }
  close(socket_);
}

void HttpTestClient::Connect(uint16_t port, TestHost from) {
  socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval limit = {.tv_sec = 20, .tv_usec = 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  const int one = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  sockaddr_in own = address;
  own.sin_port = 0;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + from.host);
  bind(socket_, reinterpret_cast<const sockaddr*>(&own), sizeof(own));
  connected_ = connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

std::string HttpTestClient::ServerName() const {
  X509* const certificate = SSL_get1_peer_certificate(tls_);
  char name[256] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof(name));
  X509_free(certificate);
  return name;
}

bool HttpTestClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = tls_ != nullptr
                             ? SSL_write(tls_, bytes.data(), static_cast<int>(bytes.size()))
                             : send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) {
      return false;
    }
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool HttpTestClient::Fill() {
  char chunk[64 << 10];
  const ssize_t got = tls_ != nullptr ? SSL_read(tls_, chunk, sizeof(chunk))
                                      : recv(socket_, chunk, sizeof(chunk), 0);
  if (got <= 0) {
    return false;
  }
  buffer_.append(chunk, static_cast<size_t>(got));
  return true;
}

TestAnswer HttpTestClient::Receive(bool head_request) {
  TestAnswer answer;
  size_t end = 0;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!Fill()) {
      return answer;
    }
  }
  answer.head = buffer_.substr(0, end + 2);
  buffer_.erase(0, end + 4);
  const std::string length = answer.Header("Content-Length");
  answer.code = std::atoi(answer.head.substr(std::string_view("HTTP/1.1 ").size()).c_str());
  if (answer.code == 100) {
    return answer;
  }
  if (length.empty() || !answer.Header("Transfer-Encoding").empty()) {
    answer.code = -1;
    return answer;
  }
  const size_t size = head_request ? 0 : std::strtoull(length.c_str(), nullptr, 10);
  while (buffer_.size() < size) {
    if (!Fill()) {
      answer.code = 0;
      return answer;
    }
  }
  answer.body = buffer_.substr(0, size);
  buffer_.erase(0, size);
  return answer;
}

TestAnswer HttpTestClient::Get(std::string_view path) {
  Send(fmt::format("GET {} HTTP/1.1\r\nHost: test\r\n\r\n", path));
  return Receive(/*head_request=*/false);
}

TestAnswer HttpTestClient::Post(std::string_view path, std::string_view body) {
  std::string request = fmt::format(
      "POST {} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: {}"
      "\r\n\r\n",
      path, body.size());
  request += body;
  Send(request);
  return Receive(/*head_request=*/false);
}

bool HttpTestClient::Readable(int milliseconds) {
  if (!buffer_.empty() || (tls_ != nullptr && SSL_pending(tls_) > 0)) {
    return true;
  }
  pollfd waiting = {.fd = socket_, .events = POLLIN, .revents = 0};
  return poll(&waiting, 1, milliseconds) > 0;
}

bool HttpTestClient::AtEnd() {
  const bool nothing_before = buffer_.empty() && !Fill();
  while (Fill()) {
  }
  return nothing_before;
}

void HttpTestClient::CloseWriteSide() {
  shutdown(socket_, SHUT_WR);
}

}  // namespace asterism::server::testing
