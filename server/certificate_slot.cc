#include "server/certificate_slot.h"

#include <utility>

#include "base/status_macros.h"
#include "server/certificate_authority.h"
#include "server/tls_context.h"

namespace asterism::server {
namespace {

constexpr char kNobody[] = "not-ready.asterism.invalid";

}  // namespace

CertificateSlot::CertificateSlot(TlsMaterial first)
    : material_(std::make_shared<TlsMaterial>(std::move(first))) {}

absl::StatusOr<std::unique_ptr<CertificateSlot>> CertificateSlot::Make(const base::Clock& clock) {
  const absl::Time now = clock.Now();
  const Validity validity{now - absl::Hours(1), now + absl::Hours(24)};
  ASSIGN_OR_RETURN(const CertificateAndKey authority,
                   MakeAuthority({.common_name = kNobody, .validity = validity}));
  ASSIGN_OR_RETURN(CertificateAndKey own,
                   IssueCertificate(authority, {.common_name = kNobody, .validity = validity}));
  return std::unique_ptr<CertificateSlot>(
      new CertificateSlot({.certificate = std::move(own.certificate),
                           .key = std::move(own.key),
                           .client_authorities = authority.certificate}));
}

std::shared_ptr<const TlsMaterial> CertificateSlot::Current() {
  absl::MutexLock lock(&mutex_);
  return material_;
}

absl::Status CertificateSlot::Put(TlsMaterial material) {
  if (*Current() == material) {
    return absl::OkStatus();
  }
  const Clients clients =
      material.client_authorities.empty() ? Clients::kAnybody : Clients::kVerified;
  RETURN_IF_ERROR(MakeTlsContext(material, clients).status());
  auto next = std::make_shared<const TlsMaterial>(std::move(material));
  absl::MutexLock lock(&mutex_);
  material_ = std::move(next);
  return absl::OkStatus();
}

}  // namespace asterism::server
