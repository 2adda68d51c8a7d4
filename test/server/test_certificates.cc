#include "test/server/test_certificates.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "base/clock.h"
#include "fmt/format.h"
#include "server/certificate_authority.h"

namespace asterism::server::testing {
namespace {

// Only this user can look into it.
std::string NewFolder() {
  std::string path = (std::filesystem::temp_directory_path() / "asterism-certificates-XXXXXX");
  CHECK_THAT(mkdtemp(path.data()) != nullptr, path);
  return path;
}

// Not around simulated time: TLS itself looks at the machine's clock.
Validity AnHourAroundNow() {
  const absl::Time now = base::SystemClock().Now();
  return {now - absl::Hours(1), now + absl::Hours(1)};
}

CertificateAndKey MakeTestAuthority(std::string_view name) {
  absl::StatusOr<CertificateAndKey> made =
      MakeAuthority({.common_name = std::string(name), .validity = AnHourAroundNow()});
  CHECK_THAT(made.ok(), made.status().ToString());
  return *std::move(made);
}

}  // namespace

TestAuthority::TestAuthority(std::string_view name)
    : folder_(NewFolder()),
      authority_(MakeTestAuthority(name)),
      ca_file_(WriteFile("authority", authority_.certificate)) {}

TestAuthority::~TestAuthority() {
  std::filesystem::remove_all(folder_);
}

std::string TestAuthority::WriteFile(std::string_view kind, const std::string& text) {
  const std::string file = fmt::format("{}/{}-{}.pem", folder_, kind, files_++);
  std::ofstream out(file);
  out << text;
  CHECK_THAT(out.good(), file);
  return file;
}

PemFiles TestAuthority::Issue(std::string_view common_name, CertificateUse use) {
  const absl::StatusOr<CertificateAndKey> made =
      IssueCertificate(authority_, {.common_name = std::string(common_name),
                                    .dns_names = {std::string(common_name)},
                                    .use = use,
                                    .validity = AnHourAroundNow()});
  CHECK_THAT(made.ok(), made.status().ToString());
  return {WriteFile("certificate", made->certificate), WriteFile("key", made->key)};
}

void ReplaceFile(const std::string& source, const std::string& target) {
  const std::string staged = target + ".new";
  std::filesystem::copy_file(source, staged, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::rename(staged, target);
}

}  // namespace asterism::server::testing
