// File: test/server/test_certificates.h
//
// A small certificate authority for tests: makes keys and certificates and writes them as PEM files
// into a folder of its own.
//
//   TestAuthority authority("ca");
//   PemFiles server = authority.Issue("localhost");
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

  const std::string& ca_file() const { return ca_file_; }
  // New files; the names do not repeat within a process.
  PemFiles Issue(std::string_view common_name);

 private:
  std::shared_ptr<EVP_PKEY> key_;
  std::shared_ptr<X509> certificate_;
  std::string ca_file_;
};

// Puts `source` in place of `target` in one step, as a mounted Secret does.
void ReplaceFile(const std::string& source, const std::string& target);

}  // namespace asterism::server::testing
