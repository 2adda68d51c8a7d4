// File: test/server/http_test_client.h
//
// A blocking HTTP/1.1 client for tests, on bare sockets so that a test can send what no
// well-behaved client would: halves, garbage, one byte at a time.
//
//   HttpTestClient client(server.port());
//   TestAnswer answer = client.Post("/echo", "hello");
//
// Everything fails the test after 20 s instead of hanging.
//
// Thread-safety: none. Cost: some system calls a request.
#pragma once

#include <openssl/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace asterism::server::testing {

struct TestAnswer {
  int code = 0;  // 0: the connection ended without an answer
  std::string head;
  std::string body;

  // Value of a header, empty when absent; the name in any case.
  std::string Header(std::string_view name) const;
};

struct TestTls {
  std::string ca_file;           // trusted authority
  std::string certificate_file;  // of the client, may be empty
  std::string key_file;
};

// A caller of its own: 127.0.0.`host`.
struct TestHost {
  uint8_t host = 1;
};

class HttpTestClient {
 public:
  explicit HttpTestClient(uint16_t port);
  HttpTestClient(uint16_t port, TestHost from);
  // Check connected() after it: the handshake may have failed.
  HttpTestClient(uint16_t port, const TestTls& tls);
  ~HttpTestClient();
  HttpTestClient(const HttpTestClient&) = delete;
  HttpTestClient& operator=(const HttpTestClient&) = delete;

  bool connected() const { return connected_; }
  // Name in the server's certificate.
  std::string ServerName() const;

  // False when the peer has closed.
  bool Send(std::string_view bytes);
  // Reads one answer. Without a Content-Length, or with a Transfer-Encoding, the code is -1.
  TestAnswer Receive(bool head_request);
  TestAnswer Get(std::string_view path);
  TestAnswer Post(std::string_view path, std::string_view body);

  // True when bytes or the end of the stream wait to be read within that time.
  bool Readable(int milliseconds);
  // Reads on to the end of the stream; false when bytes came before it.
  bool AtEnd();
  void CloseWriteSide();

 private:
  void Connect(uint16_t port, TestHost from);
  bool Fill();

  int socket_ = -1;
  SSL_CTX* context_ = nullptr;
  SSL* tls_ = nullptr;
  bool connected_ = false;
  std::string buffer_;
};

}  // namespace asterism::server::testing
