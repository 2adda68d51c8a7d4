// File: controller/certificate_plan.h
//
// Asterism's own certificates: an authority, what the controller shows to its callers, and what
// kube-scheduler shows to the controller. Each is a Secret; this says what has to be written so
// that all three are good, and writes nothing itself.
//
//   ASSIGN_OR_RETURN(const CertificatePlan plan,
//                    PlanCertificates(found, remembered, rules, clock.Now()));
//   for (const SecretWrite& write : plan.writes) ...
//
// A certificate is renewed when two thirds of its life are over. The authority keeps its key and
// its name then, so that nobody who trusts the old certificate has to learn the new one:
// kube-scheduler reads its extenders' authority only once. An authority that another one has signed
// is left alone: somebody brought it, and renews it.
//
// Thread-safety: pure, but for OpenSSL's random numbers. Cost: under 1 ms where nothing is to do.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/certificate.h"
#include "server/certificate_source.h"

namespace asterism::controller {

// What a Secret holds, decoded. Ours have tls.crt, tls.key and, but for the authority, ca.crt.
using SecretData = std::map<std::string, std::string, std::less<>>;

inline constexpr std::string_view kAuthoritySecret = "asterism-authority";
inline constexpr std::string_view kServerSecret = "asterism-extender-tls";
// In the namespace of the agents.
inline constexpr std::string_view kAgentSecret = "asterism-agent-tls";
inline constexpr std::string_view kSchedulerSecret = "asterism-scheduler-tls";
// The name in what kube-scheduler shows, and the only one that the extender serves.
// In what agents show, to the controller and to each other; it opens nothing by itself, see
// controller/agent_edge.h.
inline constexpr char kAgentName[] = "asterism-agent";
inline constexpr char kSchedulerName[] = "asterism-scheduler";

// Absent or empty ones are to be made.
struct CertificateSecrets {
  SecretData authority;
  SecretData server;
  SecretData scheduler;
  SecretData agent;
};

struct CertificateRules {
  bool agents = false;                    // there are agents to be given a certificate
  std::vector<std::string> server_names;  // DNS names; the first is the common name too
  absl::Duration authority_life = absl::Hours(24 * 3650);
  absl::Duration leaf_life = absl::Hours(24 * 90);
};

struct SecretWrite {
  std::string_view secret;
  SecretData data;
  std::string reason;     // why what was there does not do
  bool replaces = false;  // something was there, and its time was not over
};

struct CertificatePlan {
  server::CertificateAndKey authority;  // the one that holds, after the writes
  std::vector<SecretWrite> writes;      // in the order in which they are to be done
};

// `remembered`: the authority of an earlier plan, which takes the place of one that was lost or
// broken meanwhile; may be empty.
absl::StatusOr<CertificatePlan> PlanCertificates(const CertificateSecrets& found,
                                                 const server::CertificateAndKey& remembered,
                                                 const CertificateRules& rules, absl::Time now);

// What a server can use of its Secret at `now`; an error says what is wrong with it.
absl::StatusOr<server::TlsMaterial> MaterialOf(const SecretData& secret, absl::Time now);

}  // namespace asterism::controller
