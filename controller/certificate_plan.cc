#include "controller/certificate_plan.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "server/certificate_authority.h"

namespace asterism::controller {
namespace {

using server::CertificateAndKey;
using server::CertificateFacts;
using server::CertificateUse;
using server::Validity;

constexpr std::string_view kCertificateKey = "tls.crt";
constexpr std::string_view kPrivateKey = "tls.key";
constexpr std::string_view kTrustKey = "ca.crt";
constexpr char kAuthorityName[] = "asterism";
constexpr std::string_view kDue = "two thirds of its life are over";
// Clocks of other machines, and this one after a step, may be behind.
constexpr absl::Duration kBackdated = absl::Hours(24);

std::string ValueOf(const SecretData& secret, std::string_view key) {
  const auto found = secret.find(key);
  return found == secret.end() ? "" : found->second;
}

CertificateAndKey PairOf(const SecretData& secret) {
  return {ValueOf(secret, kCertificateKey), ValueOf(secret, kPrivateKey)};
}

Validity LifeFrom(absl::Time now, absl::Duration life) {
  return {now - kBackdated, now + life};
}

bool InTime(const Validity& validity, absl::Time now) {
  return validity.not_before <= now && now <= validity.not_after;
}

// Two thirds of the life are over.
bool IsDue(const Validity& validity, absl::Time now) {
  return now >= validity.not_before + (validity.not_after - validity.not_before) * 2 / 3;
}

// Why nobody can sign with it, whatever the time; empty: one can.
std::string FaultOfAuthority(const CertificateAndKey& authority) {
  if (authority.certificate.empty() || authority.key.empty()) {
    return "there is none";
  }
  if (const absl::Status status = server::CheckKey(authority); !status.ok()) {
    return std::string(status.message());
  }
  const absl::StatusOr<CertificateFacts> facts = server::ReadCertificate(authority.certificate);
  if (!facts.ok()) {
    return std::string(facts.status().message());
  }
  return facts->authority ? "" : "its certificate may not sign others";
}

// What takes the place of an authority that cannot sign: the one that was seen before, while it can
// be used, else a new one.
absl::StatusOr<CertificateAndKey> Substitute(const CertificateAndKey& remembered,
                                             const CertificateRules& rules, absl::Time now) {
  if (FaultOfAuthority(remembered).empty()) {
    const absl::StatusOr<CertificateFacts> facts = server::ReadCertificate(remembered.certificate);
    if (facts.ok() && (facts->self_signed || InTime(facts->validity, now))) {
      return remembered;
    }
  }
  return server::MakeAuthority(
      {.common_name = kAuthorityName, .validity = LifeFrom(now, rules.authority_life)});
}

absl::Status PlanAuthority(const SecretData& found, const CertificateAndKey& remembered,
                           const CertificateRules& rules, absl::Time now, CertificatePlan& plan) {
  CertificateAndKey& authority = plan.authority;
  authority = PairOf(found);
  std::string reason = FaultOfAuthority(authority);
  const bool replaces = !reason.empty() && !authority.certificate.empty();
  if (!reason.empty()) {
    ASSIGN_OR_RETURN(authority, Substitute(remembered, rules, now));
  }
  ASSIGN_OR_RETURN(const CertificateFacts facts, server::ReadCertificate(authority.certificate));
  if (facts.self_signed && (IsDue(facts.validity, now) || !InTime(facts.validity, now))) {
    ASSIGN_OR_RETURN(authority,
                     server::RenewAuthority(authority, LifeFrom(now, rules.authority_life)));
    reason = InTime(facts.validity, now) ? kDue : "its time is over, or has not come";
  } else if (!InTime(facts.validity, now)) {
    return absl::FailedPreconditionError(fmt::format(
        "the certificate in Secret {} is good from {} to {} only: renew it where it comes from, or "
        "delete the Secret for an authority of Asterism's own",
        kAuthoritySecret, absl::FormatTime(facts.validity.not_before, absl::UTCTimeZone()),
        absl::FormatTime(facts.validity.not_after, absl::UTCTimeZone())));
  }
  if (!reason.empty()) {
    plan.writes.push_back({kAuthoritySecret,
                           {{std::string(kCertificateKey), authority.certificate},
                            {std::string(kPrivateKey), authority.key}},
                           reason,
                           replaces});
  }
  return absl::OkStatus();
}

// Why a certificate signed by the authority has to be made anew; empty: it does.
std::string FaultOfLeaf(const SecretData& secret, const std::string& trust, CertificateUse use,
                        const std::vector<std::string>& names, absl::Time now) {
  const CertificateAndKey pair = PairOf(secret);
  if (pair.certificate.empty() || pair.key.empty()) {
    return "there is none";
  }
  if (ValueOf(secret, kTrustKey) != trust) {
    return "its authority is another one";
  }
  if (const absl::Status status = server::CheckCertificate(pair, trust, use, now); !status.ok()) {
    return std::string(status.message());
  }
  const absl::StatusOr<CertificateFacts> facts = server::ReadCertificate(pair.certificate);
  const absl::StatusOr<CertificateFacts> authority = server::ReadCertificate(trust);
  if (!facts.ok() || !authority.ok()) {
    return std::string((facts.ok() ? authority : facts).status().message());
  }
  const absl::Time authority_end = authority->validity.not_after;
  for (const std::string& name : names) {
    if (std::find(facts->dns_names.begin(), facts->dns_names.end(), name) ==
        facts->dns_names.end()) {
      return "it does not have the name " + name;
    }
  }
  // One that ends with its authority could not be made to last longer.
  const bool longest = facts->validity.not_after >= authority_end;
  return IsDue(facts->validity, now) && !longest ? std::string(kDue) : "";
}

struct Leaf {
  std::string_view secret;
  std::string common_name;
  std::vector<std::string> dns_names;
  CertificateUse use;
};

absl::Status PlanLeaf(const SecretData& found, const Leaf& leaf, const CertificateRules& rules,
                      absl::Time now, CertificatePlan& plan) {
  // Only the authority itself is trusted, not what may have signed it.
  ASSIGN_OR_RETURN(const std::string trust, server::FirstCertificate(plan.authority.certificate));
  const std::string reason = FaultOfLeaf(found, trust, leaf.use, leaf.dns_names, now);
  if (reason.empty()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(
      const CertificateAndKey made,
      server::IssueCertificate(plan.authority, {.common_name = leaf.common_name,
                                                .dns_names = leaf.dns_names,
                                                .use = leaf.use,
                                                .validity = LifeFrom(now, rules.leaf_life)}));
  plan.writes.push_back({leaf.secret,
                         {{std::string(kCertificateKey), made.certificate},
                          {std::string(kPrivateKey), made.key},
                          {std::string(kTrustKey), trust}},
                         reason});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CertificatePlan> PlanCertificates(const CertificateSecrets& found,
                                                 const CertificateAndKey& remembered,
                                                 const CertificateRules& rules, absl::Time now) {
  CertificatePlan plan;
  RETURN_IF_ERROR(PlanAuthority(found.authority, remembered, rules, now, plan));
  RETURN_IF_ERROR(PlanLeaf(found.server,
                           {.secret = kServerSecret,
                            .common_name = rules.server_names.front(),
                            .dns_names = rules.server_names,
                            .use = CertificateUse::kServer},
                           rules, now, plan));
  RETURN_IF_ERROR(PlanLeaf(found.scheduler,
                           {.secret = kSchedulerSecret,
                            .common_name = kSchedulerName,
                            .dns_names = {},
                            .use = CertificateUse::kClient},
                           rules, now, plan));
  if (rules.agents) {
    RETURN_IF_ERROR(PlanLeaf(found.agent,
                             {.secret = kAgentSecret,
                              .common_name = kAgentName,
                              .dns_names = {kAgentName},
                              .use = CertificateUse::kServerAndClient},
                             rules, now, plan));
  }
  return plan;
}

absl::StatusOr<server::TlsMaterial> MaterialOf(const SecretData& secret, absl::Time now) {
  const CertificateAndKey pair = PairOf(secret);
  if (pair.certificate.empty() || pair.key.empty()) {
    return absl::NotFoundError("it holds no certificate yet");
  }
  const std::string trust = ValueOf(secret, kTrustKey);
  if (trust.empty()) {
    return absl::FailedPreconditionError(
        "it has no ca.crt: use an issuer that writes one, since callers are known by it");
  }
  RETURN_IF_ERROR(server::CheckCertificate(pair, trust, CertificateUse::kServer, now));
  return server::TlsMaterial{
      .certificate = pair.certificate, .key = pair.key, .client_authorities = trust};
}

}  // namespace asterism::controller
