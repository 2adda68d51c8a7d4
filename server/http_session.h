// File: server/http_session.h
//
// Private to http_server.cc, which is the only file that may include this. One connection: reads a
// request, calls its handler, writes the answer, again, until one side has had enough.
//
//   auto session = std::make_shared<StreamSession<Socket>>(shared, thread, std::move(socket));
//   asio::co_spawn(context, [session] { return session->Run(); }, asio::detached);
//
// Arguments of awaited calls are plain values or none: g++ 12 miscompiles aggregates that are made
// inside a co_await expression.
//
// Thread-safety: none; lives on its IoThread. Cost: see http_server.h.
#pragma once

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/status.hpp>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/log.h"
#include "fmt/format.h"
#include "server/http_routes.h"
#include "server/io_thread.h"
#include "server/peer_room.h"

namespace asterism::server::internal {

namespace http = boost::beast::http;

// Memory for one body and the padding behind it.
class BodyBuffer {
 public:
  char* Reserve(size_t size) {
    if (capacity_ < size + kBodyPadding) {
      capacity_ = size + kBodyPadding;
      memory_ = std::make_unique_for_overwrite<char[]>(capacity_);
    }
    std::memset(memory_.get() + size, 0, kBodyPadding);
    return memory_.get();
  }
  void GiveBackAbove(size_t kept_max) {
    if (capacity_ > kept_max) {
      memory_.reset();
      capacity_ = 0;
    }
  }

 private:
  std::unique_ptr<char[]> memory_;
  size_t capacity_ = 0;
};

// Takes its share of the bytes in flight, or nothing.
class BodyTicket {
 public:
  BodyTicket(Shared& shared, uint64_t bytes) : shared_(shared), bytes_(bytes) {
    taken_ = shared_.bodies_in_flight.fetch_add(bytes_) + bytes_ <=
             shared_.options.bodies_in_flight_bytes_max;
    if (!taken_) {
      GiveBack();
    }
  }
  ~BodyTicket() {
    if (taken_) {
      GiveBack();
    }
  }
  BodyTicket(const BodyTicket&) = delete;
  BodyTicket& operator=(const BodyTicket&) = delete;
  bool taken() const { return taken_; }

 private:
  void GiveBack() { shared_.bodies_in_flight.fetch_sub(bytes_); }

  Shared& shared_;
  const uint64_t bytes_;
  bool taken_;
};

inline std::string_view ToView(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

// A refusal by the server itself.
struct Refusal {
  int code = 0;
  std::string text;
};

inline Refusal RefusalOf(const ErrorCode& error, const HttpServerOptions& options) {
  if (error == http::error::body_limit) {
    return {413,
            fmt::format("the body is longer than the limit of {} bytes\n", options.body_bytes_max)};
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return {431, fmt::format("the header is longer than the limit of {} bytes\n",
                             options.header_bytes_max)};
  }
  return {400, fmt::format("not an HTTP/1.1 request: {}\n", error.message())};
}

inline bool IsProtocolError(const ErrorCode& error) {
  return error.category() == make_error_code(http::error::bad_method).category() &&
         error != http::error::end_of_stream && error != http::error::partial_message;
}

using Parser = http::request_parser<http::empty_body>;

template <typename Stream>
class StreamSession final : public Session,
                            public std::enable_shared_from_this<StreamSession<Stream>> {
 public:
  // Has room of the peer, and gives it back.
  StreamSession(Shared& shared, IoThread& thread, Stream stream, Peer peer)
      : Session(shared),
        thread_(thread),
        peer_(peer),
        stream_(std::move(stream)),
        buffer_(shared.options.header_bytes_max + kReadChunk) {}

  Socket& socket() override {
    if constexpr (kTls) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }

  Awaitable<void> Run() {
    const auto self = this->shared_from_this();
    thread_.sessions().insert(this);
    try {
      bool going = co_await Handshake();
      while (going) {
        going = co_await ServeOne();
      }
    } catch (const std::exception& error) {
      base::LogError("http_session_failed", {{"error", error.what()}});
    }
    Cut();
    thread_.sessions().erase(this);
    shared_.connections.fetch_sub(1);
    shared_.room.Leave(peer_);
    shared_.metrics.ChangeConnections(-1);
    thread_.EndWhenDone();
  }

 private:
  static constexpr bool kTls = std::is_same_v<Stream, TlsStream>;

  Awaitable<bool> Handshake() {
    if constexpr (kTls) {
      ErrorCode error;
      co_await stream_.async_handshake(asio::ssl::stream_base::server,
                                       asio::redirect_error(kAwait, error));
      if (error) {
        shared_.metrics.CountFailedHandshake();
      }
      co_return !error;
    } else {
      co_return true;
    }
  }

  // One request and its answer. False ends the connection.
  Awaitable<bool> ServeOne() {
    const bool begun = co_await WaitForRequest();
    if (!begun) {
      co_return false;
    }
    Parser parser;
    parser.header_limit(shared_.options.header_bytes_max);
    parser.body_limit(shared_.options.body_bytes_max);
    ErrorCode error;
    co_await http::async_read_header(stream_, buffer_, parser, asio::redirect_error(kAwait, error));
    if (error) {
      co_return co_await EndAfter(error, "header");
    }
    if (RefuseHeader(parser)) {
      co_return co_await SendRefusal();
    }
    const size_t size = static_cast<size_t>(parser.content_length().value_or(0));
    const BodyTicket ticket(shared_, size);
    if (!ticket.taken()) {
      SetText(503, "too many request bodies in flight: try again\n");
      co_return co_await SendRefusal();
    }
    char* const body = body_.Reserve(size);
    error = co_await ReadBody(parser, body, size);
    if (error) {
      co_return co_await EndAfter(error, "body");
    }
    const bool keep = co_await Answer(parser, std::string_view(body, size));
    body_.GiveBackAbove(shared_.KeptBytesMax());
    co_return keep;
  }

  Awaitable<bool> WaitForRequest() {
    if (buffer_.size() == 0) {
      // A connection that has never sent anything gets the shorter limit.
      served_ ? Enter(Phase::kIdle) : Enter(Phase::kIdle, shared_.options.header_timeout);
      if (shared_.stopping) {
        co_return false;
      }
      ErrorCode error;
      const size_t got = co_await stream_.async_read_some(buffer_.prepare(kReadChunk),
                                                          asio::redirect_error(kAwait, error));
      if (error) {
        co_return false;
      }
      buffer_.commit(got);
    }
    Enter(Phase::kReading);
    served_ = true;
    co_return true;
  }

  // True when it has set the answer to a request that is not read on.
  bool RefuseHeader(Parser& parser) {
    const auto& request = parser.get();
    if (parser.chunked()) {
      SetText(411, "chunked bodies are not taken: send Content-Length\n");
      return true;
    }
    if (request.version() == 11 && request.find(http::field::host) == request.end()) {
      SetText(400, "an HTTP/1.1 request needs a Host header\n");
      return true;
    }
    return false;
  }

  Awaitable<ErrorCode> ReadBody(Parser& parser, char* body, size_t size) {
    ErrorCode error;
    const size_t here = std::min(size, buffer_.size());
    std::memcpy(body, buffer_.data().data(), here);
    buffer_.consume(here);
    if (here == size) {
      co_return error;
    }
    Enter(Phase::kReading, shared_.options.body_timeout);
    const std::string_view expect = ToView(parser.get()[http::field::expect]);
    if (here == 0 && !expect.empty()) {
      // RFC 9110 section 10.1.1: the client may wait for this before it sends the body.
      static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      co_await asio::async_write(stream_, asio::buffer(kContinue.data(), kContinue.size()),
                                 asio::redirect_error(kAwait, error));
      if (error) {
        co_return error;
      }
    }
    co_await asio::async_read(stream_, asio::buffer(body + here, size - here),
                              asio::redirect_error(kAwait, error));
    co_return error;
  }

  Awaitable<bool> Answer(Parser& parser, std::string_view body) {
    const auto& message = parser.get();
    const std::string_view target = ToView(message.target());
    const size_t question = std::min(target.find('?'), target.size());
    HttpRequest request{.method = ToView(message.method_string()),
                        .path = target.substr(0, question),
                        .query = target.substr(std::min(question + 1, target.size())),
                        .body = body,
                        .content_type = ToView(message[http::field::content_type])};
    response_.code = 200;
    response_.content_type = "application/json";
    response_.body.clear();
    framing_ = {.keep = message.keep_alive() && !shared_.stopping,
                .old_client = message.version() < 11,
                .head = request.method == "HEAD"};
    Dispatch(request);
    const bool written = co_await Write();
    if (written && !framing_.keep) {
      co_await SayGoodbye();
    }
    co_return written ? framing_.keep : false;
  }

  void Dispatch(const HttpRequest& request) {
    const HttpHandler* handler =
        shared_.routes.Find(request.method, request.path, framing_.allowed);
    if (handler != nullptr) {
      try {
        (*handler)(request, response_);
      } catch (const std::exception& error) {
        base::LogError("http_handler_failed", {{"path", request.path}, {"error", error.what()}});
        SetText(500, "the handler failed: see the log\n");
      }
      return;
    }
    const std::string path(request.path.substr(0, 256));
    if (framing_.allowed.empty()) {
      SetText(404, "no such path: " + path + "\n");
    } else {
      SetText(405,
              fmt::format("{} does not take {}: use {}\n", path, request.method, framing_.allowed));
    }
  }

  void SetText(int code, std::string text) {
    response_.code = code;
    response_.content_type = "text/plain; charset=utf-8";
    response_.body = std::move(text);
  }

  struct Framing {
    bool keep = true;
    bool old_client = false;  // HTTP/1.0
    bool head = false;
    std::string allowed;  // the value of an Allow header
  };

  Awaitable<bool> Write() {
    Enter(Phase::kAnswering);
    shared_.metrics.CountAnswer(response_.code);
    head_.clear();
    fmt::format_to(
        std::back_inserter(head_),
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nDate: {}\r\n"
        "X-Content-Type-Options: nosniff\r\n",
        response_.code,
        ToView(http::obsolete_reason(http::int_to_status(static_cast<unsigned>(response_.code)))),
        response_.content_type, response_.body.size(), thread_.DateLine());
    if (!framing_.allowed.empty()) {
      fmt::format_to(std::back_inserter(head_), "Allow: {}\r\n", framing_.allowed);
    }
    if (!framing_.keep) {
      head_ += "Connection: close\r\n";
    } else if (framing_.old_client) {
      head_ += "Connection: keep-alive\r\n";
    }
    head_ += "\r\n";
    std::string_view rest = framing_.head ? std::string_view() : response_.body;
    if (rest.size() <= kJoinedBytesMax) {
      head_ += rest;
      rest = {};
    }
    const std::array<asio::const_buffer, 2> pieces = {asio::buffer(head_),
                                                      asio::buffer(rest.data(), rest.size())};
    ErrorCode error;
    co_await asio::async_write(stream_, pieces, asio::redirect_error(kAwait, error));
    if (response_.body.capacity() > shared_.KeptBytesMax()) {
      response_.body = std::string();
    }
    co_return !error;
  }

  // Ends the connection after a failed read: with an answer where the client can use one.
  Awaitable<bool> EndAfter(ErrorCode error, const char* part) {
    if (expired()) {
      SetText(408, fmt::format("the {} did not come in time\n", part));
    } else if (IsProtocolError(error)) {
      Refusal refusal = RefusalOf(error, shared_.options);
      SetText(refusal.code, std::move(refusal.text));
    } else {
      co_return false;
    }
    co_return co_await SendRefusal();
  }

  Awaitable<bool> SendRefusal() {
    framing_ = {.keep = false};
    const bool written = co_await Write();
    if (written) {
      co_await Linger();
    }
    co_return false;
  }

  // Reads on until the client has seen the answer: closing with unread bytes would reset the
  // connection and could destroy the answer on its way.
  Awaitable<void> Linger() {
    Enter(Phase::kLingering);
    ErrorCode error;
    socket().shutdown(Socket::shutdown_send, error);
    char ignored[4096];
    while (!error) {
      co_await socket().async_read_some(asio::buffer(ignored), asio::redirect_error(kAwait, error));
    }
  }

  Awaitable<void> SayGoodbye() {
    if constexpr (kTls) {
      Enter(Phase::kLingering);
      ErrorCode ignored;
      co_await stream_.async_shutdown(asio::redirect_error(kAwait, ignored));
    }
    co_return;
  }

  IoThread& thread_;
  const Peer peer_;
  Stream stream_;
  boost::beast::flat_buffer buffer_;
  bool served_ = false;
  BodyBuffer body_;
  HttpResponse response_;
  Framing framing_;
  std::string head_;
};

}  // namespace asterism::server::internal
