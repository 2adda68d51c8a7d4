#include "test/server/test_certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/check.h"
#include "fmt/format.h"

namespace asterism::server::testing {
namespace {

// Only this user can look into it.
std::string NewFolder() {
  std::string path = (std::filesystem::temp_directory_path() / "asterism-certificates-XXXXXX");
  CHECK_THAT(mkdtemp(path.data()) != nullptr, path);
  return path;
}

std::shared_ptr<X509> MakeCertificate(EVP_PKEY* key, std::string_view name, X509* issuer,
                                      EVP_PKEY* issuer_key) {
  static std::atomic<int> serial{1};
  std::shared_ptr<X509> certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial.fetch_add(1));
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME* const subject = X509_get_subject_name(certificate.get());
  const std::string text(name);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(text.c_str()), -1, -1, 0);
  const bool authority = issuer == nullptr;
  X509_set_issuer_name(certificate.get(), authority ? subject : X509_get_subject_name(issuer));
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(
      nullptr, nullptr, NID_basic_constraints, authority ? "critical,CA:TRUE" : "CA:FALSE");
  X509_add_ext(certificate.get(), extension, -1);
  X509_EXTENSION_free(extension);
  CHECK_THAT(X509_sign(certificate.get(), issuer_key, EVP_sha256()) > 0, "cannot sign");
  return certificate;
}

}  // namespace

TestAuthority::TestAuthority(std::string_view name)
    : folder_(NewFolder()),
      key_(EVP_EC_gen("P-256"), EVP_PKEY_free),
      certificate_(MakeCertificate(key_.get(), name, nullptr, key_.get())),
      ca_file_(WriteCertificate(certificate_.get())) {}

TestAuthority::~TestAuthority() {
  std::filesystem::remove_all(folder_);
}

std::string TestAuthority::NewFile(std::string_view kind) {
  return fmt::format("{}/{}-{}.pem", folder_, kind, files_++);
}

std::string TestAuthority::WriteCertificate(X509* certificate) {
  const std::string file = NewFile("certificate");
  std::FILE* const out = std::fopen(file.c_str(), "w");
  CHECK_THAT(out != nullptr && PEM_write_X509(out, certificate) == 1, file);
  std::fclose(out);
  return file;
}

PemFiles TestAuthority::Issue(std::string_view common_name) {
  const std::shared_ptr<EVP_PKEY> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::shared_ptr<X509> certificate =
      MakeCertificate(key.get(), common_name, certificate_.get(), key_.get());
  PemFiles files{WriteCertificate(certificate.get()), NewFile("key")};
  std::FILE* const out = std::fopen(files.key_file.c_str(), "w");
  CHECK_THAT(out != nullptr &&
                 PEM_write_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1,
             files.key_file);
  std::fclose(out);
  return files;
}

void ReplaceFile(const std::string& source, const std::string& target) {
  const std::string staged = target + ".new";
  std::filesystem::copy_file(source, staged, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::rename(staged, target);
}

}  // namespace asterism::server::testing
