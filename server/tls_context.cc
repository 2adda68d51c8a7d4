#include "server/tls_context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "server/openssl_pem.h"

namespace asterism::server {
namespace {

using internal::CertificatePtr;
using internal::CertificatesFromPem;
using internal::KeyFromPem;
using internal::KeyPtr;
using internal::OpenSslError;

// Clients that offer protocols (Go offers h2 too) are told http/1.1; without that offer the
// handshake goes on without a protocol.
int ChooseHttp11(SSL*, const unsigned char** chosen, unsigned char* chosen_length,
                 const unsigned char* offered, unsigned offered_length, void*) {
  static constexpr unsigned char kHttp11[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, chosen_length, kHttp11, sizeof(kHttp11), offered,
                            offered_length) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

absl::Status Unusable(std::string_view part, const absl::Status& status) {
  return absl::FailedPreconditionError(
      fmt::format("cannot use the TLS {}: {}", part, base::ToStd(status.message())));
}

absl::Status UseCertificate(SSL_CTX& context, const std::string& pem) {
  ASSIGN_OR_RETURN(const std::vector<CertificatePtr> chain, CertificatesFromPem(pem));
  bool used = SSL_CTX_use_certificate(&context, chain.front().get()) == 1;
  for (size_t i = 1; used && i < chain.size(); ++i) {
    used = SSL_CTX_add1_chain_cert(&context, chain[i].get()) == 1;
  }
  return used ? absl::OkStatus() : OpenSslError("refused");
}

absl::Status UseKey(SSL_CTX& context, const std::string& pem) {
  ASSIGN_OR_RETURN(const KeyPtr key, KeyFromPem(pem));
  if (SSL_CTX_use_PrivateKey(&context, key.get()) != 1 ||
      SSL_CTX_check_private_key(&context) != 1) {
    return OpenSslError("refused");
  }
  return absl::OkStatus();
}

// Whom it trusts, and whom it names to a client that has several certificates.
absl::Status UseClientAuthorities(SSL_CTX& context, const std::string& pem) {
  ASSIGN_OR_RETURN(const std::vector<CertificatePtr> authorities, CertificatesFromPem(pem));
  // The authorities named here are the end of every chain, also where another one signed them.
  X509_STORE_set_flags(SSL_CTX_get_cert_store(&context), X509_V_FLAG_PARTIAL_CHAIN);
  for (const CertificatePtr& each : authorities) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(&context), each.get()) != 1 ||
        SSL_CTX_add_client_CA(&context, each.get()) != 1) {
      return OpenSslError("refused");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<SSL_CTX>> MakeTlsContext(const TlsMaterial& material,
                                                        Clients clients) {
  ERR_clear_error();
  const std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (context == nullptr) {
    return absl::InternalError("OpenSSL gave no TLS context: out of memory?");
  }
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                         SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(context.get(), ChooseHttp11, nullptr);
  // Without a session id context OpenSSL refuses to resume sessions of verified clients.
  static constexpr unsigned char kSessionContext[] = "asterism";
  SSL_CTX_set_session_id_context(context.get(), kSessionContext, sizeof(kSessionContext) - 1);
  if (const absl::Status status = UseCertificate(*context, material.certificate); !status.ok()) {
    return Unusable("certificate", status);
  }
  if (const absl::Status status = UseKey(*context, material.key); !status.ok()) {
    return Unusable("key", status);
  }
  if (!material.client_authorities.empty() || clients == Clients::kVerified) {
    if (const absl::Status status = UseClientAuthorities(*context, material.client_authorities);
        !status.ok()) {
      return Unusable("client CA", status);
    }
  }
  if (clients == Clients::kVerified) {
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  return context;
}

}  // namespace asterism::server
