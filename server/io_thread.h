// File: server/io_thread.h
//
// Private to http_server.cc, which is the only file that may include this: Boost.Asio and
// Boost.Beast cost 10 s of compile time.
//
// One io_context a thread, and each connection stays on the thread that it was given, so a session
// needs no lock: it is a coroutine that reads, calls the handler, writes. Time limits are plain
// fields of the session that one sweep a thread looks at; a timer a read would cost a system call.
//
//   IoThread thread(shared, "http-io-0");
//   thread.Start();  ...  thread.BeginStop();  thread.Join();
//
// Thread-safety: Shared is for all threads; a Session belongs to its IoThread. Cost: see
// http_server.h.
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/executor.h"
#include "server/http_server.h"
#include "server/peer_room.h"

namespace asterism::server::internal {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;
using IoExecutor = asio::io_context::executor_type;
using Socket = asio::basic_stream_socket<asio::ip::tcp, IoExecutor>;
using TlsStream = asio::ssl::stream<Socket>;
using Acceptor = asio::basic_socket_acceptor<asio::ip::tcp, IoExecutor>;
using IoTimer =
    asio::basic_waitable_timer<std::chrono::steady_clock,
                               asio::wait_traits<std::chrono::steady_clock>, IoExecutor>;
template <typename T>
using Awaitable = asio::awaitable<T, IoExecutor>;
inline constexpr asio::use_awaitable_t<IoExecutor> kAwait;

inline constexpr size_t kReadChunk = 16 << 10;
inline constexpr size_t kKeptBytesMax = 1 << 20;        // of one buffer between two requests
inline constexpr size_t kKeptBytesOfAllMax = 64 << 20;  // of all connections together
inline constexpr size_t kJoinedBytesMax = 64
                                          << 10;  // answers up to this leave as one piece of memory
inline constexpr absl::Duration kLingerMax = absl::Seconds(2);

// What the sessions of one server share.
struct Shared {
  const base::Clock& clock;
  const HttpRoutes routes;
  HttpServerMetrics& metrics;
  const HttpServerOptions options;
  std::atomic<bool> stopping{false};
  PeerRoom room{{.all_max = static_cast<size_t>(options.connections_max),
                 .each_max = static_cast<size_t>(options.connections_per_peer_max)}};
  std::atomic<int> connections{0};
  std::atomic<uint64_t> bodies_in_flight{0};

  // What a connection may keep for its next request: less, the more there are.
  size_t KeptBytesMax() const {
    return std::min(kKeptBytesMax, kKeptBytesOfAllMax / static_cast<size_t>(connections.load()));
  }
};

enum class Phase { kHandshake, kIdle, kReading, kAnswering, kLingering };

// What the sweep sees of a connection.
class Session {
 public:
  explicit Session(Shared& shared) : shared_(shared) { Enter(Phase::kHandshake); }
  virtual ~Session() = default;
  virtual Socket& socket() = 0;

  // Idle and reading sessions are woken, so that they can say goodbye; the others are cut.
  void CheckDeadline(base::SteadyTime now) {
    if (now < deadline_) {
      return;
    }
    expired_ = true;
    ErrorCode ignored;
    if (phase_ == Phase::kIdle || phase_ == Phase::kReading) {
      socket().cancel(ignored);
    } else {
      socket().close(ignored);
    }
  }
  void StopIfIdle() {
    if (phase_ == Phase::kIdle) {
      ErrorCode ignored;
      socket().cancel(ignored);
    }
  }
  void Cut() {
    ErrorCode ignored;
    socket().close(ignored);
  }

 protected:
  void Enter(Phase phase) { Enter(phase, Limit(phase)); }
  void Enter(Phase phase, absl::Duration limit) {
    phase_ = phase;
    expired_ = false;
    deadline_ = shared_.clock.SteadyNow() + limit;
  }
  bool expired() const { return expired_; }

  Shared& shared_;

 private:
  absl::Duration Limit(Phase phase) const {
    switch (phase) {
      case Phase::kHandshake:
        return shared_.options.handshake_timeout;
      case Phase::kReading:
        return shared_.options.header_timeout;
      case Phase::kIdle:
        return shared_.options.idle_timeout;
      case Phase::kAnswering:
        return shared_.options.write_timeout;
      case Phase::kLingering:
        break;
    }
    return kLingerMax;
  }

  Phase phase_ = Phase::kHandshake;
  bool expired_ = false;
  base::SteadyTime deadline_;
};

// One I/O thread and its sessions.
class IoThread {
 public:
  IoThread(Shared& shared, const std::string& name)
      : context_(1),
        work_(context_.get_executor()),
        sweep_timer_(context_),
        grace_timer_(context_),
        shared_(shared),
        executor_(name.c_str()) {}

  asio::io_context& context() { return context_; }
  std::unordered_set<Session*>& sessions() { return sessions_; }

  void Start() {
    asio::co_spawn(context_, Sweep(), asio::detached);
    executor_.Post([this] { context_.run(); });
  }
  // From any thread: ends run() once the last session is gone.
  void BeginStop() {
    asio::post(context_, [this] {
      work_.reset();
      for (Session* session : sessions_) {
        session->StopIfIdle();
      }
      const auto grace = absl::ToChronoNanoseconds(shared_.options.stop_grace);
      grace_timer_.expires_after(grace);
      grace_timer_.async_wait([this](ErrorCode error) {
        if (!error) {
          CutAll();
        }
      });
      EndWhenDone();
    });
  }
  // Waits for run() to return.
  void Join() { executor_.Stop(); }

  void EndWhenDone() {
    if (shared_.stopping && sessions_.empty()) {
      sweep_timer_.cancel();
      grace_timer_.cancel();
    }
  }

  // The HTTP date, built once a second.
  const std::string& DateLine() {
    const absl::Time now = shared_.clock.Now();
    const int64_t second = absl::ToUnixSeconds(now);
    if (second != date_second_) {
      date_second_ = second;
      date_line_ = absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", now, absl::UTCTimeZone());
    }
    return date_line_;
  }

 private:
  Awaitable<void> Sweep() {
    while (!shared_.stopping || !sessions_.empty()) {
      ErrorCode ignored;
      sweep_timer_.expires_after(absl::ToChronoNanoseconds(shared_.options.sweep_interval));
      co_await sweep_timer_.async_wait(asio::redirect_error(kAwait, ignored));
      const base::SteadyTime now = shared_.clock.SteadyNow();
      for (Session* session : sessions_) {
        session->CheckDeadline(now);
      }
    }
  }
  void CutAll() {
    for (Session* session : sessions_) {
      session->Cut();
    }
  }

  asio::io_context context_;
  std::optional<asio::executor_work_guard<IoExecutor>> work_;
  IoTimer sweep_timer_;
  IoTimer grace_timer_;
  Shared& shared_;
  std::unordered_set<Session*> sessions_;
  int64_t date_second_ = -1;
  std::string date_line_;
  base::ThreadExecutor executor_;  // last: its thread uses what stands above
};

}  // namespace asterism::server::internal
