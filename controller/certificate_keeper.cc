#include "controller/certificate_keeper.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace asterism::controller {
namespace {

using nlohmann::json;

struct NamedSecret {
  std::string_view secret;
  std::string_view metric;
};
constexpr NamedSecret kSecretNames[] = {{kServerSecret, "server"},
                                        {kAuthoritySecret, "authority"},
                                        {kSchedulerSecret, "scheduler"},
                                        {kAgentSecret, "agent"}};

std::string_view MetricNameOf(std::string_view secret) {
  for (const NamedSecret& each : kSecretNames) {
    if (each.secret == secret) {
      return each.metric;
    }
  }
  return {};
}

std::vector<std::string> ServerNames(const std::string& namespace_name) {
  const std::string name = "asterism-extender";
  const std::string full = fmt::format("{}.{}", name, namespace_name);
  // localhost: for people who come through kubectl port-forward.
  return {name, full, full + ".svc", full + ".svc.cluster.local", "localhost"};
}

// A value that is no text or no base64 reads as absent.
SecretData DataOf(const json& object) {
  SecretData data;
  const auto found = object.find("data");
  if (found == object.end() || !found->is_object()) {
    return data;
  }
  for (const auto& [key, value] : found->items()) {
    std::string decoded;
    if (value.is_string() && absl::Base64Unescape(value.get_ref<const std::string&>(), &decoded)) {
      data[key] = std::move(decoded);
    }
  }
  return data;
}

json EncodedData(const SecretData& data) {
  json encoded = json::object();
  for (const auto& [key, value] : data) {
    encoded[key] = absl::Base64Escape(value);
  }
  return encoded;
}

}  // namespace

CertificateKeeper::CertificateKeeper(Dependencies dependencies, CertificateKeeperOptions options)
    : dependencies_(std::move(dependencies)),
      options_(std::move(options)),
      rules_{.agents = !options_.agents_namespace.empty(),
             .server_names = ServerNames(options_.namespace_name)},
      timer_(dependencies_.executor) {}

void CertificateKeeper::Start() {
  Look();
}

std::vector<std::string> CertificateKeeper::Missing() const {
  absl::MutexLock lock(&mutex_);
  if (missing_.empty()) {
    return {};
  }
  return {fmt::format("certificate: {}", missing_)};
}

void CertificateKeeper::SetMissing(std::string reason) {
  absl::MutexLock lock(&mutex_);
  missing_ = std::move(reason);
}

const std::string& CertificateKeeper::NamespaceOf(std::string_view secret) const {
  return secret == kAgentSecret ? options_.agents_namespace : options_.namespace_name;
}

void CertificateKeeper::Look() {
  found_.clear();
  unread_ = {kServerSecret};
  if (options_.issue) {
    // A standby too: it knows the authority when it has to take over.
    unread_ = {kSchedulerSecret, kServerSecret, kAuthoritySecret};
    if (rules_.agents) {
      unread_.insert(unread_.begin(), kAgentSecret);
    }
  }
  ReadNext();
}

void CertificateKeeper::ReadNext() {
  if (unread_.empty()) {
    Judge();
    return;
  }
  const std::string_view name = unread_.back();
  unread_.pop_back();
  dependencies_.client.Get(
      kube::kSecrets, {NamespaceOf(name), std::string(name)}, kube::Lane::kWrite,
      alive_.Wrap([this, name](const absl::StatusOr<kube::Reply>& reply) { OnRead(name, reply); }));
}

void CertificateKeeper::OnRead(std::string_view name, const absl::StatusOr<kube::Reply>& reply) {
  if (absl::IsNotFound(reply.status())) {
    found_[name] = {};
  } else if (!reply.ok()) {
    Fail(fmt::format("cannot read Secret {}", name), reply.status());
    return;
  } else {
    const json object = json::parse(reply->body, nullptr, /*allow_exceptions=*/false);
    const json version = object.is_object()
                             ? object.value("/metadata/resourceVersion"_json_pointer, json())
                             : json();
    if (!version.is_string()) {
      Fail(fmt::format("cannot read Secret {}", name), absl::InternalError("not a Secret in JSON"));
      return;
    }
    found_[name] = {version.get<std::string>(), DataOf(object)};
  }
  ReadNext();
}

void CertificateKeeper::Judge() {
  for (const NamedSecret& each : kSecretNames) {
    if (const auto found = found_.find(each.secret); found != found_.end()) {
      dependencies_.metrics.Report(each.metric, found->second.data["tls.crt"]);
    }
  }
  // What is there may do for callers, whatever becomes of the plan.
  const absl::Status shown = Show(found_[kServerSecret].data);
  shown_ = shown.ok();
  if (!options_.issue) {
    Wait(shown);
    return;
  }
  absl::StatusOr<CertificatePlan> plan =
      PlanCertificates({found_[kAuthoritySecret].data, found_[kServerSecret].data,
                        found_[kSchedulerSecret].data, found_[kAgentSecret].data},
                       authority_, rules_, dependencies_.clock.Now());
  if (!plan.ok()) {
    Fail(fmt::format("cannot use Secret {}", kAuthoritySecret), plan.status());
    return;
  }
  const bool stands = plan->writes.empty() || plan->writes.front().secret != kAuthoritySecret;
  if (stands || dependencies_.may_write()) {
    authority_ = plan->authority;
  }
  if (!plan->writes.empty() && dependencies_.may_write()) {
    writes_.assign(plan->writes.rbegin(), plan->writes.rend());
    WriteNext();
    return;
  }
  Wait(shown);
}

void CertificateKeeper::Wait(const absl::Status& shown) {
  if (shown_) {
    last_failure_.clear();
    LookAgain(options_.look_period);
    return;
  }
  Fail(fmt::format("cannot use Secret {}", kServerSecret), shown);
}

// To the servers.
absl::Status CertificateKeeper::Show(const SecretData& secret) {
  ASSIGN_OR_RETURN(server::TlsMaterial material, MaterialOf(secret, dependencies_.clock.Now()));
  RETURN_IF_ERROR(dependencies_.slot.Put(std::move(material)));
  SetMissing("");
  return absl::OkStatus();
}

void CertificateKeeper::WriteNext() {
  if (writes_.empty() || !dependencies_.may_write()) {
    LookAgain(options_.retry_period);
    return;
  }
  SecretWrite write = std::move(writes_.back());
  writes_.pop_back();
  const std::string& version = found_[write.secret].resource_version;
  const std::string name(write.secret);
  json body = {{"apiVersion", "v1"},
               {"kind", "Secret"},
               {"metadata", {{"name", name}}},
               {"data", EncodedData(write.data)}};
  auto done =
      alive_.Wrap([this, write = std::move(write)](const absl::StatusOr<kube::Reply>& reply) {
        OnWritten(write, reply.status());
      });
  if (version.empty()) {
    body["metadata"]["labels"]["app.kubernetes.io/name"] = "asterism";
    dependencies_.client.Create(kube::kSecrets, NamespaceOf(name), body.dump(), {},
                                kube::Lane::kWrite, std::move(done));
  } else {
    // Refused when somebody has changed it since it was read.
    body["metadata"]["resourceVersion"] = version;
    dependencies_.client.Patch(kube::kSecrets, {NamespaceOf(name), name}, body.dump(),
                               {.type = kube::PatchType::kMerge}, std::move(done));
  }
}

void CertificateKeeper::OnWritten(const SecretWrite& write, const absl::Status& status) {
  if (absl::IsAborted(status) || absl::IsAlreadyExists(status)) {
    LookAgain(options_.retry_period);  // somebody else was here; what they wrote may be good
    return;
  }
  if (!status.ok()) {
    Fail(fmt::format("cannot write Secret {}", write.secret), status);
    return;
  }
  dependencies_.metrics.CountRenewal(MetricNameOf(write.secret));
  if (write.replaces) {
    base::LogWarning("certificate_replaced",
                     {{"secret", std::string(write.secret)}, {"because", write.reason}});
  } else {
    base::LogInfo("certificate_made",
                  {{"secret", std::string(write.secret)}, {"because", write.reason}});
  }
  if (write.secret == kServerSecret) {
    Show(write.data).IgnoreError();  // the next look says what may be wrong with it
  }
  WriteNext();
}

void CertificateKeeper::Fail(std::string_view what, const absl::Status& status) {
  dependencies_.metrics.CountFailure();
  std::string failure = fmt::format("{}: {}", what, base::ToStd(status.message()));
  // A standby finds nothing until the leader has made it.
  const bool waiting = absl::IsNotFound(status) && options_.issue;
  if (failure != last_failure_ && !waiting) {
    base::LogWarning("certificate_failed", {{"error", failure}});
  }
  if (!shown_) {
    SetMissing(failure);
  }
  last_failure_ = std::move(failure);
  LookAgain(shown_ ? options_.look_period : options_.retry_period);
}

void CertificateKeeper::LookAgain(absl::Duration delay) {
  timer_.Start(delay, [this] { Look(); });
}

}  // namespace asterism::controller
