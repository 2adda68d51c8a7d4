// File: test/server/test_certificates.h
//
// A small certificate authority for tests: makes keys and certificates and writes them as PEM files
// into a folder of its own, which goes with it, so that no private key outlives its test.
//
//   TestAuthority authority("ca");
//   PemFiles server = authority.Issue("localhost");   // valid as long as `authority`
//
// Thread-safety: none. Cost: under 1 ms a certificate (P-256).
#pragma once

#include <openssl/types.h>

#include <memory>
#include <string>
#include <string_view>

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
  // New files each time.
  PemFiles Issue(std::string_view common_name);

 private:
  std::string NewFile(std::string_view kind);
  std::string WriteCertificate(X509* certificate);

  const std::string folder_;
  int files_ = 0;
  std::shared_ptr<EVP_PKEY> key_;
  std::shared_ptr<X509> certificate_;
  std::string ca_file_;
};

// Puts `source` in place of `target` in one step, as a mounted Secret does.
void ReplaceFile(const std::string& source, const std::string& target);

}  // namespace asterism::server::testing
