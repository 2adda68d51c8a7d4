// File: server/openssl_pem.h
//
// Private to the certificate files of this folder: OpenSSL's objects with an owner, to and from
// PEM, and its error queue as a status.
//
//   ASSIGN_OR_RETURN(const CertificatePtr certificate, CertificateFromPem(pem));
//
// Thread-safety: pure; the error queue is the thread's. Cost: some 10 us.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace asterism::server::internal {

template <auto kFree>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using CertificatePtr = std::unique_ptr<X509, Freed<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using BioPtr = std::unique_ptr<BIO, Freed<BIO_free_all>>;

// "WHAT: the first error of OpenSSL"; empties the queue.
absl::Status OpenSslError(std::string_view what);

absl::StatusOr<CertificatePtr> CertificateFromPem(std::string_view pem);
// All of them, at least one, in their order.
absl::StatusOr<std::vector<CertificatePtr>> CertificatesFromPem(std::string_view pem);
// Not encrypted.
absl::StatusOr<KeyPtr> KeyFromPem(std::string_view pem);

absl::StatusOr<std::string> ToPem(X509& certificate);
absl::StatusOr<std::string> ToPem(EVP_PKEY& key);

}  // namespace asterism::server::internal
