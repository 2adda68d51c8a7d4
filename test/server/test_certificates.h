// File: test/server/test_certificates.h
//
// An authority for tests: writes its certificates and keys as PEM files into a folder of its own,
// which goes with it, so that no private key outlives its test.
//
//   TestAuthority authority("ca");
//   PemFiles server = authority.Issue("localhost");   // valid as long as `authority`
//
// Thread-safety: none. Cost: under 1 ms a certificate (P-256).
#pragma once

#include <string>
#include <string_view>

#include "server/certificate.h"

namespace asterism::server::testing {

struct PemFiles {
  std::string certificate_file;
  std::string key_file;
};

class TestAuthority {
 public:
  explicit TestAuthority(std::string_view name);
  ~TestAuthority();
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;

  const std::string& ca_file() const { return ca_file_; }
  const CertificateAndKey& authority() const { return authority_; }
  // New files each time, good for an hour.
  PemFiles Issue(std::string_view common_name, CertificateUse use = CertificateUse::kServer);

 private:
  std::string WriteFile(std::string_view kind, const std::string& text);

  const std::string folder_;
  int files_ = 0;
  const CertificateAndKey authority_;
  const std::string ca_file_;
};

// Puts `source` in place of `target` in one step, as a mounted Secret does.
void ReplaceFile(const std::string& source, const std::string& target);

}  // namespace asterism::server::testing
