#include "launch/psk_channel.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>

#include "base/status_macros.h"

namespace asterism::launch {
namespace {

constexpr std::string_view kIdentity = "asterism-job";
// TLS_AES_256_GCM_SHA384: the key schedule takes a secret of any length.
constexpr std::array<unsigned char, 2> kCipher = {0x13, 0x02};
constexpr size_t kHeader = 5;  // kind, length

int KeyIndex() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

// The secret as a session that both sides already have.
SSL_SESSION* SessionOf(SSL* connection) {
  const auto* key =
      static_cast<const std::string*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(connection), KeyIndex()));
  const SSL_CIPHER* cipher = SSL_CIPHER_find(connection, kCipher.data());
  SSL_SESSION* session = SSL_SESSION_new();
  if (cipher == nullptr || session == nullptr ||
      SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key->data()),
                                  key->size()) != 1 ||
      SSL_SESSION_set_cipher(session, cipher) != 1 ||
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
    SSL_SESSION_free(session);
    return nullptr;
  }
  return session;
}

int UseSession(SSL* connection, const EVP_MD* digest, const unsigned char** identity,
               size_t* identity_size, SSL_SESSION** session) {
  *session = nullptr;
  *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *identity_size = kIdentity.size();
  SSL_SESSION* ours = SessionOf(connection);
  if (ours == nullptr) {
    return 0;
  }
  if (digest != nullptr &&
      digest != SSL_CIPHER_get_handshake_digest(SSL_SESSION_get0_cipher(ours))) {
    SSL_SESSION_free(ours);
    return 1;  // the server asked for another digest: no key is offered, and it will refuse us
  }
  *session = ours;
  return 1;
}

int FindSession(SSL* connection, const unsigned char* identity, size_t identity_size,
                SSL_SESSION** session) {
  const bool known = identity_size == kIdentity.size() &&
                     std::memcmp(identity, kIdentity.data(), identity_size) == 0;
  *session = known ? SessionOf(connection) : nullptr;
  return 1;
}

void LimitSocket(int socket, absl::Duration limit) {
  const timeval time = absl::ToTimeval(limit);
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
}

// TLS_AES_256_GCM_SHA384 wants a secret of at most 48 bytes in OpenSSL's session: a digest of the
// file keeps all of its strength.
std::string SecretOf(const std::string& key) {
  std::string digest(48, '\0');
  unsigned int size = 0;
  EVP_Digest(key.data(), key.size(), reinterpret_cast<unsigned char*>(digest.data()), &size,
             EVP_sha384(), nullptr);
  return digest;
}

// Why a handshake that returned `done` did not succeed. Only an answer that is wrong says that the
// other side has another key; silence and an end say that it may be asked again.
absl::Status WhyNoHandshake(SSL* connection, int done, int error) {
  const int kind = done == 1 ? SSL_ERROR_NONE : SSL_get_error(connection, done);
  if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE ||
      (kind == SSL_ERROR_SYSCALL && (error == EAGAIN || error == EWOULDBLOCK))) {
    return absl::DeadlineExceededError("the other side does not answer");
  }
  const bool ended = kind == SSL_ERROR_SSL &&
                     ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
  if (kind == SSL_ERROR_SYSCALL || kind == SSL_ERROR_ZERO_RETURN || ended) {
    return absl::UnavailableError("the other side ended the connection before it answered");
  }
  return absl::UnauthenticatedError("the other side does not know the job's key");
}

}  // namespace

PskChannel::Socket::~Socket() {
  close(number);
}

void PskChannel::FreeContext::operator()(ssl_ctx_st* context) const {
  SSL_CTX_free(context);
}

void PskChannel::FreeConnection::operator()(ssl_st* connection) const {
  SSL_free(connection);
}

absl::StatusOr<PskChannel> PskChannel::Begin(int socket, const std::string& key,
                                             absl::Duration limit, bool server) {
  PskChannel channel;
  channel.socket_ = std::make_unique<Socket>(socket);
  if (key.size() < kPskKeyMin) {
    return absl::FailedPreconditionError("the job's key has fewer than 32 bytes");
  }
  channel.key_ = std::make_unique<std::string>(SecretOf(key));
  channel.context_.reset(SSL_CTX_new(server ? TLS_server_method() : TLS_client_method()));
  SSL_CTX* context = channel.context_.get();
  if (context == nullptr || SSL_CTX_set_ex_data(context, KeyIndex(), channel.key_.get()) != 1 ||
      SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, "TLS_AES_256_GCM_SHA384") != 1) {
    return absl::InternalError("OpenSSL refuses the settings of the remote shell");
  }
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_mode(context, SSL_MODE_AUTO_RETRY);
  // There is no certificate on either side: only the key can make a handshake succeed. The client
  // says so of its own accord.
  if (!server) {
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  }
  SSL_CTX_set_psk_use_session_callback(context, UseSession);
  SSL_CTX_set_psk_find_session_callback(context, FindSession);
  channel.connection_.reset(SSL_new(context));
  if (channel.connection_ == nullptr || SSL_set_fd(channel.connection_.get(), socket) != 1) {
    return absl::ResourceExhaustedError("no memory for a connection");
  }
  LimitSocket(socket, limit);
  ERR_clear_error();
  errno = 0;
  const int done =
      server ? SSL_accept(channel.connection_.get()) : SSL_connect(channel.connection_.get());
  const int error = errno;
  if (done != 1 || SSL_session_reused(channel.connection_.get()) != 1) {
    return WhyNoHandshake(channel.connection_.get(), done, error);
  }
  LimitSocket(socket, absl::ZeroDuration());
  return channel;
}

absl::StatusOr<PskChannel> PskChannel::Connect(int socket, const std::string& key,
                                               absl::Duration limit) {
  return Begin(socket, key, limit, /*server=*/false);
}

absl::StatusOr<PskChannel> PskChannel::Accept(int socket, const std::string& key,
                                              absl::Duration limit) {
  return Begin(socket, key, limit, /*server=*/true);
}

absl::Status PskChannel::Send(const PskMessage& message) {
  if (message.data.size() > kPskMessageMax) {
    return absl::InvalidArgumentError("a message of the remote shell is too long");
  }
  std::string packet(1, message.kind);
  const auto size = static_cast<uint32_t>(message.data.size());
  for (int shift = 24; shift >= 0; shift -= 8) {
    packet.push_back(static_cast<char>(size >> shift & 0xFF));
  }
  packet += message.data;
  ERR_clear_error();
  size_t written = 0;
  if (SSL_write_ex(connection_.get(), packet.data(), packet.size(), &written) != 1) {
    return absl::UnavailableError("the other side is gone");
  }
  return absl::OkStatus();
}

absl::Status PskChannel::ReadExactly(char* to, size_t size) {
  while (size > 0) {
    size_t got = 0;
    ERR_clear_error();
    if (SSL_read_ex(connection_.get(), to, size, &got) != 1) {
      return absl::UnavailableError("the other side is gone");
    }
    to += got;
    size -= got;
  }
  return absl::OkStatus();
}

absl::StatusOr<PskMessage> PskChannel::Receive() {
  std::array<char, kHeader> header{};
  RETURN_IF_ERROR(ReadExactly(header.data(), header.size()));
  uint32_t size = 0;
  for (size_t i = 1; i < kHeader; ++i) {
    size = size << 8 | static_cast<unsigned char>(header[i]);
  }
  if (size > kPskMessageMax) {
    return absl::InvalidArgumentError("a message of the remote shell is too long");
  }
  PskMessage message{.kind = header[0]};
  message.data.resize(size);
  RETURN_IF_ERROR(ReadExactly(message.data.data(), size));
  return message;
}

bool PskChannel::pending() const {
  return SSL_has_pending(connection_.get()) == 1;
}

}  // namespace asterism::launch
