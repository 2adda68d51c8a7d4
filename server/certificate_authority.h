// File: server/certificate_authority.h
//
// A small certificate authority: makes its own key and certificate, and signs those of servers and
// of their callers. ECDSA with P-256 and SHA-256, X.509 v3 as RFC 5280 profiles it.
//
//   ASSIGN_OR_RETURN(const CertificateAndKey authority,
//                    MakeAuthority({.common_name = "asterism", .validity = ten_years}));
//   ASSIGN_OR_RETURN(const CertificateAndKey server,
//                    IssueCertificate(authority, {.common_name = "asterism-extender",
//                                                 .dns_names = {"asterism-extender.ns.svc"},
//                                                 .use = CertificateUse::kServer,
//                                                 .validity = ninety_days}));
//
// Thread-safety: pure, but for OpenSSL's random numbers. Cost: under 1 ms each.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/certificate.h"

namespace asterism::server {

struct AuthorityRequest {
  std::string common_name;
  Validity validity;
};

// With a new key.
absl::StatusOr<CertificateAndKey> MakeAuthority(const AuthorityRequest& request);

// A self-signed authority with another time; name, key and all else stay. So it vouches for what
// the old one has signed, and the old one for what it signs. A chain behind it is dropped.
absl::StatusOr<CertificateAndKey> RenewAuthority(const CertificateAndKey& authority,
                                                 const Validity& validity);

struct CertificateRequest {
  std::string common_name;
  std::vector<std::string> dns_names;  // servers are known by these, not by the common name
  CertificateUse use = CertificateUse::kServer;
  Validity validity;  // ends at the latest with the authority's own
};

absl::StatusOr<CertificateAndKey> IssueCertificate(const CertificateAndKey& authority,
                                                   const CertificateRequest& request);

}  // namespace asterism::server
