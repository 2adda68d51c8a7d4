// File: server/certificates.h
//
// A server's certificate, key and client CA, read from files that may be replaced at any time (as
// cert-manager and mounted Secrets do). New connections use what the files hold now; a half-written
// or wrong set of files keeps the last good one in use, with one warning for each such set.
//
//   ASSIGN_OR_RETURN(auto certificates, Certificates::Load(options, on_reload));
//   std::shared_ptr<SSL_CTX> context = certificates->Current();   // for each new connection
//
// TLS 1.2 and 1.3, ALPN http/1.1, session resumption, no renegotiation.
//
// Thread-safety: none; owned by the accepting I/O thread. Cost: Current is three stat calls, and a
// read of the files after a change.
#pragma once

#include <openssl/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace asterism::server {

struct TlsOptions {
  std::string certificate_file;  // PEM, the server's certificate first, then its chain
  std::string key_file;          // PEM
  // PEM. When set, only clients with a certificate of one of these authorities are served (mTLS).
  std::string client_ca_file;
};

class Certificates {
 public:
  // Called after each attempt to load changed files.
  using OnReload = std::function<void(bool good)>;

  static absl::StatusOr<std::unique_ptr<Certificates>> Load(TlsOptions options, OnReload on_reload);

  std::shared_ptr<SSL_CTX> Current();

 private:
  // Device, inode, size and change time of a file; all zero when it is not there.
  using FileStamp = std::array<int64_t, 5>;
  using Stamps = std::array<FileStamp, 3>;

  Certificates(TlsOptions options, OnReload on_reload);
  Stamps ReadStamps() const;

  const TlsOptions options_;
  const OnReload on_reload_;
  Stamps stamps_{};
  std::shared_ptr<SSL_CTX> context_;
};

}  // namespace asterism::server
