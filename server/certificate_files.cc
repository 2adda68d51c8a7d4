#include "server/certificate_files.h"

#include <sys/stat.h>

#include <utility>

#include "absl/status/status.h"
#include "base/log.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "server/tls_context.h"

namespace asterism::server {
namespace {

absl::StatusOr<std::string> ReadPart(std::string_view part, const std::string& path) {
  absl::StatusOr<std::string> text = base::ReadSmallFile(path);
  if (!text.ok()) {
    return absl::FailedPreconditionError(
        fmt::format("cannot use the TLS {} file: {}: check that it exists and is readable", part,
                    base::ToStd(text.status().message())));
  }
  return text;
}

}  // namespace

CertificateFiles::CertificateFiles(CertificatePaths paths, OnReload on_reload)
    : paths_(std::move(paths)), on_reload_(std::move(on_reload)) {}

absl::StatusOr<std::unique_ptr<CertificateFiles>> CertificateFiles::Load(CertificatePaths paths,
                                                                         OnReload on_reload) {
  std::unique_ptr<CertificateFiles> files(
      new CertificateFiles(std::move(paths), std::move(on_reload)));
  absl::MutexLock lock(&files->mutex_);
  // Stamps first: a change between the two is seen as a change later.
  files->stamps_ = files->ReadStamps();
  ASSIGN_OR_RETURN(files->material_, files->Read());
  return files;
}

std::shared_ptr<const TlsMaterial> CertificateFiles::Current() {
  absl::MutexLock lock(&mutex_);
  const Stamps stamps = ReadStamps();
  if (stamps == stamps_) {
    return material_;
  }
  stamps_ = stamps;
  absl::StatusOr<std::shared_ptr<const TlsMaterial>> read = Read();
  if (read.ok()) {
    material_ = *std::move(read);
    base::LogInfo("certificate_reloaded", {{"file", paths_.certificate}});
  } else {
    base::LogWarning("certificate_reload_failed",
                     {{"error", base::ToStd(read.status().message())},
                      {"effect", "the former certificate stays in use"}});
  }
  on_reload_(read.ok() ? material_.get() : nullptr);
  return material_;
}

absl::StatusOr<std::shared_ptr<const TlsMaterial>> CertificateFiles::Read() const {
  auto material = std::make_shared<TlsMaterial>();
  ASSIGN_OR_RETURN(material->certificate, ReadPart("certificate", paths_.certificate));
  ASSIGN_OR_RETURN(material->key, ReadPart("key", paths_.key));
  if (!paths_.client_ca.empty()) {
    ASSIGN_OR_RETURN(material->client_authorities, ReadPart("client CA", paths_.client_ca));
  }
  const absl::Status usable =
      MakeTlsContext(*material, paths_.client_ca.empty() ? Clients::kAnybody : Clients::kVerified)
          .status();
  if (!usable.ok()) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: check the files {}, {}{}{}", base::ToStd(usable.message()), paths_.certificate,
        paths_.key, paths_.client_ca.empty() ? "" : ", ", paths_.client_ca));
  }
  return material;
}

CertificateFiles::Stamps CertificateFiles::ReadStamps() const {
  Stamps stamps{};
  const std::string* files[] = {&paths_.certificate, &paths_.key, &paths_.client_ca};
  for (size_t i = 0; i < stamps.size(); ++i) {
    struct stat facts = {};
    if (!files[i]->empty() && stat(files[i]->c_str(), &facts) == 0) {
      stamps[i] = {static_cast<int64_t>(facts.st_dev), static_cast<int64_t>(facts.st_ino),
                   static_cast<int64_t>(facts.st_size), static_cast<int64_t>(facts.st_ctim.tv_sec),
                   static_cast<int64_t>(facts.st_ctim.tv_nsec)};
    }
  }
  return stamps;
}

}  // namespace asterism::server
