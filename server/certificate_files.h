// File: server/certificate_files.h
//
// Certificate, key and client CA from files that may be replaced at any time, as a mounted Secret
// is. A half-written or wrong set keeps the last good one in use, with one warning for each set.
//
//   ASSIGN_OR_RETURN(const auto files, CertificateFiles::Load(paths, on_reload));
//   options.certificates = files.get();
//
// Thread-safety: Current from any thread. Cost: three stat calls, and a read after a change.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/certificate_source.h"

namespace asterism::server {

// PEM files; `client_ca` may be empty: callers show no certificate.
struct CertificatePaths {
  std::string certificate;
  std::string key;
  std::string client_ca;
};

class CertificateFiles final : public CertificateSource {
 public:
  // Called after each attempt to load changed files, on the thread that asked; null: it failed.
  // Must not call back.
  using OnReload = std::function<void(const TlsMaterial* loaded)>;

  static absl::StatusOr<std::unique_ptr<CertificateFiles>> Load(CertificatePaths paths,
                                                                OnReload on_reload);

  std::shared_ptr<const TlsMaterial> Current() override;

 private:
  // Device, inode, size and change time of a file; all zero when it is not there.
  using FileStamp = std::array<int64_t, 5>;
  using Stamps = std::array<FileStamp, 3>;

  CertificateFiles(CertificatePaths paths, OnReload on_reload);
  Stamps ReadStamps() const;
  absl::StatusOr<std::shared_ptr<const TlsMaterial>> Read() const;

  const CertificatePaths paths_;
  const OnReload on_reload_;
  absl::Mutex mutex_;
  Stamps stamps_ ABSL_GUARDED_BY(mutex_){};
  std::shared_ptr<const TlsMaterial> material_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace asterism::server
