// File: server/certificate.h
//
// A certificate with its key, and what can be said about them: names, time, whom it proves.
//
//   ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(pem));
//   RETURN_IF_ERROR(CheckCertificate(pair, authorities, CertificateUse::kServer, clock.Now()));
//
// Thread-safety: pure. Cost: some 0.1 ms (parsing, and one signature check).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace asterism::server {

// Both PEM; the certificate may be followed by its chain.
struct CertificateAndKey {
  std::string certificate;
  std::string key;

  bool operator==(const CertificateAndKey&) const = default;
};

// Whole seconds; both ends are part of it.
struct Validity {
  absl::Time not_before;
  absl::Time not_after;
};

enum class CertificateUse { kServer, kClient, kServerAndClient };

struct CertificateFacts {
  std::string common_name;             // of the subject; may be empty
  std::vector<std::string> dns_names;  // subject alternative names
  Validity validity;
  bool authority = false;    // may sign certificates
  bool self_signed = false;  // subject and issuer are the same
};

// Of the first certificate in `pem`.
absl::StatusOr<CertificateFacts> ReadCertificate(const std::string& pem);

// The first certificate in `pem` alone, without the chain behind it.
absl::StatusOr<std::string> FirstCertificate(const std::string& pem);

// OK when the key belongs to the certificate. Says nothing about who signed it, or when.
absl::Status CheckKey(const CertificateAndKey& pair);

// OK when the pair can be shown for `use` at `now` to somebody who trusts `authorities` (PEM): the
// key belongs to it, one of them has signed it, and its time has come and is not over.
absl::Status CheckCertificate(const CertificateAndKey& pair, const std::string& authorities,
                              CertificateUse use, absl::Time now);

}  // namespace asterism::server
