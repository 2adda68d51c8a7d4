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
  // PEM. Made with the key and the name of an earlier one, a new certificate vouches for all that
  // the earlier one has signed, and the other way round. Empty: a new key.
  std::string key;
};

absl::StatusOr<CertificateAndKey> MakeAuthority(const AuthorityRequest& request);

struct CertificateRequest {
  std::string common_name;
  std::vector<std::string> dns_names;  // servers are known by these, not by the common name
  CertificateUse use = CertificateUse::kServer;
  Validity validity;  // ends at the latest with the authority's own
};

absl::StatusOr<CertificateAndKey> IssueCertificate(const CertificateAndKey& authority,
                                                   const CertificateRequest& request);

}  // namespace asterism::server
