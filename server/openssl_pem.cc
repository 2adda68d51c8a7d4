#include "server/openssl_pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include "base/status_macros.h"

namespace asterism::server::internal {
namespace {

constexpr size_t kPemBytesMax = 1 << 20;

absl::StatusOr<BioPtr> ReaderOf(std::string_view pem) {
  if (pem.size() > kPemBytesMax) {
    return absl::InvalidArgumentError("longer than 1 MiB");
  }
  BioPtr reader(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  if (reader == nullptr) {
    return OpenSslError("no memory");
  }
  return reader;
}

std::string BytesOf(BIO& memory) {
  char* text = nullptr;
  const auto length = BIO_get_mem_data(&memory, &text);
  return {text, static_cast<size_t>(length)};
}

// An encrypted key must not make OpenSSL ask on the terminal.
int NoPassword(char*, int, int, void*) {
  return -1;
}

}  // namespace

absl::Status OpenSslError(std::string_view what) {
  const unsigned long code = ERR_get_error();
  char text[256] = "unknown error";
  if (code != 0) {
    ERR_error_string_n(code, text, sizeof(text));
  }
  ERR_clear_error();
  return absl::FailedPreconditionError(std::string(what) + ": " + text);
}

absl::StatusOr<std::vector<CertificatePtr>> CertificatesFromPem(std::string_view pem) {
  ERR_clear_error();
  ASSIGN_OR_RETURN(const BioPtr reader, ReaderOf(pem));
  std::vector<CertificatePtr> found;
  while (true) {
    CertificatePtr next(PEM_read_bio_X509(reader.get(), nullptr, NoPassword, nullptr));
    if (next == nullptr) {
      break;
    }
    found.push_back(std::move(next));
  }
  // What ends the loop is "no start line" where the text is good.
  const unsigned long code = ERR_peek_last_error();
  const bool at_end =
      ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
  if (found.empty() || !at_end) {
    return OpenSslError("not a certificate in PEM");
  }
  ERR_clear_error();
  return found;
}

absl::StatusOr<CertificatePtr> CertificateFromPem(std::string_view pem) {
  ASSIGN_OR_RETURN(std::vector<CertificatePtr> found, CertificatesFromPem(pem));
  return std::move(found.front());
}

absl::StatusOr<KeyPtr> KeyFromPem(std::string_view pem) {
  ERR_clear_error();
  ASSIGN_OR_RETURN(const BioPtr reader, ReaderOf(pem));
  KeyPtr key(PEM_read_bio_PrivateKey(reader.get(), nullptr, NoPassword, nullptr));
  if (key == nullptr) {
    return OpenSslError("not a private key in PEM without a password");
  }
  return key;
}

absl::StatusOr<std::string> ToPem(X509& certificate) {
  const BioPtr memory(BIO_new(BIO_s_mem()));
  if (memory == nullptr || PEM_write_bio_X509(memory.get(), &certificate) != 1) {
    return OpenSslError("cannot write a certificate");
  }
  return BytesOf(*memory);
}

absl::StatusOr<std::string> ToPem(EVP_PKEY& key) {
  const BioPtr memory(BIO_new(BIO_s_mem()));
  if (memory == nullptr || PEM_write_bio_PKCS8PrivateKey(memory.get(), &key, nullptr, nullptr, 0,
                                                         nullptr, nullptr) != 1) {
    return OpenSslError("cannot write a key");
  }
  return BytesOf(*memory);
}

}  // namespace asterism::server::internal
