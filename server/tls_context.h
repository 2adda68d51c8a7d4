// File: server/tls_context.h
//
// OpenSSL's context of a server, made from PEM in memory: TLS 1.2 and 1.3, ALPN http/1.1, session
// resumption, no renegotiation.
//
//   ASSIGN_OR_RETURN(std::shared_ptr<SSL_CTX> context, MakeTlsContext(material,
//   Clients::kVerified));
//
// Thread-safety: pure; a context may be used by many threads. Cost: some 0.1 ms.
#pragma once

#include <openssl/types.h>

#include <memory>

#include "absl/status/statusor.h"
#include "server/certificate_source.h"

namespace asterism::server {

enum class Clients {
  kAnybody,   // none is asked for a certificate
  kVerified,  // none is served without a certificate of one of the client authorities (mTLS)
};

// An error says which of the three cannot be used, and why. kVerified without any authority is one.
absl::StatusOr<std::shared_ptr<SSL_CTX>> MakeTlsContext(const TlsMaterial& material,
                                                        Clients clients);

}  // namespace asterism::server
