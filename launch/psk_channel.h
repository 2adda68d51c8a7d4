// File: launch/psk_channel.h
//
// Messages between two processes that share a secret: TLS 1.3 with a pre-shared key over a
// connected socket.
//
//   ASSIGN_OR_RETURN(PskChannel channel, PskChannel::Connect(socket, key, absl::Seconds(10)));
//   RETURN_IF_ERROR(channel.Send({.kind = 'C', .data = "date"}));
//   ASSIGN_OR_RETURN(PskMessage message, channel.Receive());
//
// Errors: kUnauthenticated when the other side does not know the secret; kDeadlineExceeded when it
// says nothing in a handshake; kUnavailable when it is gone, in a handshake as well;
// kInvalidArgument for a message beyond the bound.
//
// Thread-safety: none. Cost: one handshake of about 1 ms.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

struct ssl_st;
struct ssl_ctx_st;

namespace asterism::launch {

inline constexpr size_t kPskMessageMax = size_t{1} << 20;
inline constexpr size_t kPskKeyMin = 32;  // bytes

struct PskMessage {
  char kind = 0;
  std::string data;
};

class PskChannel {
 public:
  // Both take the socket over.
  static absl::StatusOr<PskChannel> Connect(int socket, const std::string& key,
                                            absl::Duration limit);
  static absl::StatusOr<PskChannel> Accept(int socket, const std::string& key,
                                           absl::Duration limit);
  PskChannel(PskChannel&&) = default;
  PskChannel& operator=(PskChannel&&) = default;

  // Waits until it is handed to the system.
  absl::Status Send(const PskMessage& message);
  // Waits for a whole message.
  absl::StatusOr<PskMessage> Receive();
  // A message, or a part of one, has been read from the socket already: poll would not say so.
  bool pending() const;
  int socket() const { return socket_->number; }

 private:
  struct Socket {
    explicit Socket(int descriptor) : number(descriptor) {}
    ~Socket();
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    const int number;
  };
  struct FreeContext {
    void operator()(ssl_ctx_st* context) const;
  };
  struct FreeConnection {
    void operator()(ssl_st* connection) const;
  };

  static absl::StatusOr<PskChannel> Begin(int socket, const std::string& key, absl::Duration limit,
                                          bool server);
  PskChannel() = default;
  absl::Status ReadExactly(char* to, size_t size);

  std::unique_ptr<Socket> socket_;
  std::unique_ptr<std::string> key_;  // the context points at it
  std::unique_ptr<ssl_ctx_st, FreeContext> context_;
  std::unique_ptr<ssl_st, FreeConnection> connection_;
};

}  // namespace asterism::launch
