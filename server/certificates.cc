#include "server/certificates.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace asterism::server {
namespace {

// Takes the first error of OpenSSL's queue of this thread and clears the rest.
absl::Status TlsFileError(std::string_view what, const std::string& file) {
  const unsigned long code = ERR_get_error();
  char text[256] = "unknown error";
  if (code != 0) {
    ERR_error_string_n(code, text, sizeof(text));
  }
  ERR_clear_error();
  std::string message("cannot use the TLS ");
  message += what;
  message += " file " + file + ": " + text + ": check that it exists, is PEM, and is readable";
  return absl::FailedPreconditionError(message);
}

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

absl::Status LoadClientAuthorities(SSL_CTX* context, const std::string& file) {
  STACK_OF(X509_NAME)* names = SSL_load_client_CA_file(file.c_str());
  if (names == nullptr || SSL_CTX_load_verify_locations(context, file.c_str(), nullptr) != 1) {
    sk_X509_NAME_pop_free(names, X509_NAME_free);
    return TlsFileError("client CA", file);
  }
  SSL_CTX_set_client_CA_list(context, names);  // takes ownership
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<SSL_CTX>> LoadTlsContext(const TlsOptions& options) {
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
  if (SSL_CTX_use_certificate_chain_file(context.get(), options.certificate_file.c_str()) != 1) {
    return TlsFileError("certificate", options.certificate_file);
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), options.key_file.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1) {
    return TlsFileError("key", options.key_file);
  }
  if (!options.client_ca_file.empty()) {
    RETURN_IF_ERROR(LoadClientAuthorities(context.get(), options.client_ca_file));
  }
  return context;
}

}  // namespace

Certificates::Certificates(TlsOptions options, OnReload on_reload)
    : options_(std::move(options)), on_reload_(std::move(on_reload)) {}

absl::StatusOr<std::unique_ptr<Certificates>> Certificates::Load(TlsOptions options,
                                                                 OnReload on_reload) {
  std::unique_ptr<Certificates> certificates(
      new Certificates(std::move(options), std::move(on_reload)));
  // Stamps first: a change between the two is seen as a change later.
  certificates->stamps_ = certificates->ReadStamps();
  ASSIGN_OR_RETURN(certificates->context_, LoadTlsContext(certificates->options_));
  return certificates;
}

std::shared_ptr<SSL_CTX> Certificates::Current() {
  const Stamps stamps = ReadStamps();
  if (stamps == stamps_) {
    return context_;
  }
  stamps_ = stamps;
  absl::StatusOr<std::shared_ptr<SSL_CTX>> loaded = LoadTlsContext(options_);
  if (loaded.ok()) {
    context_ = *std::move(loaded);
    base::LogInfo("certificate_reloaded", {{"file", options_.certificate_file}});
  } else {
    base::LogWarning("certificate_reload_failed",
                     {{"error", std::string(loaded.status().message())},
                      {"effect", "the former certificate stays in use"}});
  }
  on_reload_(loaded.ok());
  return context_;
}

Certificates::Stamps Certificates::ReadStamps() const {
  Stamps stamps{};
  const std::string* files[] = {&options_.certificate_file, &options_.key_file,
                                &options_.client_ca_file};
  for (size_t i = 0; i < stamps.size(); ++i) {
    struct stat facts = {};
    if (!files[i]->empty() && stat(files[i]->c_str(), &facts) == 0) {
      stamps[i] = {static_cast<int64_t>(facts.st_dev), static_cast<int64_t>(facts.st_ino),
                   static_cast<int64_t>(facts.st_size), static_cast<int64_t>(facts.st_ctim.tv_sec),
                   static_cast<int64_t>(facts.st_ctim.tv_nsec)};
    }
  }
  return stamps;
}

}  // namespace asterism::server
