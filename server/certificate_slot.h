// File: server/certificate_slot.h
//
// A certificate in memory that somebody else keeps fresh, such as what reads it from a Secret.
//
//   ASSIGN_OR_RETURN(const auto slot, CertificateSlot::Make(clock));
//   options.certificates = slot.get();
//   RETURN_IF_ERROR(slot->Put(material));   // new connections use it
//
// Until the first Put it holds a certificate of its own making that nobody trusts: callers that
// verify are refused by themselves, probes that do not verify are answered.
//
// Thread-safety: Put and Current from any thread. Cost: a lock.
#pragma once

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "server/certificate_source.h"

namespace asterism::server {

class CertificateSlot final : public CertificateSource {
 public:
  static absl::StatusOr<std::unique_ptr<CertificateSlot>> Make(const base::Clock& clock);

  std::shared_ptr<const TlsMaterial> Current() override;
  // The same as before is no change. An error leaves what is there.
  absl::Status Put(TlsMaterial material);

 private:
  explicit CertificateSlot(TlsMaterial first);

  absl::Mutex mutex_;
  std::shared_ptr<const TlsMaterial> material_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace asterism::server
