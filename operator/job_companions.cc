// The objects beside a gang's pods: the headless Service through which its ranks find rank 0, and
// the host file of the frameworks that want one. The garbage collector takes them with the job.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/log.h"
#include "base/rng.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "kube/decoder.h"
#include "operator/conditions.h"
#include "operator/job_controller.h"
#include "operator/launcher.h"

namespace asterism::operators {
namespace {

enum class CompanionOwner { kThisJob, kEarlierJob, kSomebodyElse };

CompanionOwner OwnerOf(const kube::ObjectMeta& companion, const kube::ObjectMeta& job) {
  const auto owner =
      std::find_if(companion.owners.begin(), companion.owners.end(), [&](const auto& reference) {
        return reference.kind == kTrainingJobs.kind &&
               reference.api_version.starts_with(kTrainingJobs.group) && reference.name == job.name;
      });
  if (owner == companion.owners.end()) {
    return CompanionOwner::kSomebodyElse;
  }
  return owner->uid == job.uid ? CompanionOwner::kThisJob : CompanionOwner::kEarlierJob;
}

// 32 random bytes as hexadecimal digits.
std::string MakeJobKey() {
  std::string key;
  for (size_t bytes = 0; bytes < kJobKeyBytes; bytes += sizeof(uint64_t)) {
    key += fmt::format("{:016x}", base::Rng::SystemSeed());
  }
  return key;
}

std::string KeyOf(const kube::ResourceType& type, const std::string& name) {
  return fmt::format("{} {}", type.kind, name);
}

}  // namespace

void JobController::CreateCompanions(JobState& state) {
  CreateCompanion(state, kube::kServices, state.meta().name,
                  state.admission.builder->ServiceBody());
  if (state.object->spec.framework == Framework::kMpi) {
    CreateCompanion(state, kube::kSecrets, KeySecretName(state.meta()),
                    state.admission.builder->KeyBody(MakeJobKey()));
  }
  if (std::string body = state.admission.builder->HostFileBody(); !body.empty()) {
    CreateCompanion(state, kube::kConfigMaps,
                    HostFileMapName(state.meta(), state.admission.shape.pods), std::move(body));
  }
}

void JobController::CreateCompanion(JobState& state, const kube::ResourceType& type,
                                    const std::string& name, std::string body) {
  const std::string key = KeyOf(type, name);
  if (!state.companions.insert(key).second) {
    return;
  }
  client_.Create(type, state.meta().namespace_name, std::move(body), {}, kube::Lane::kWrite,
                 alive_.Wrap([this, uid = state.meta().uid, key,
                              service = type.plural ==
                                        kube::kServices.plural](absl::StatusOr<kube::Reply> reply) {
                   const auto found = jobs_.find(uid);
                   if (found == jobs_.end()) {
                     return;
                   }
                   if (reply.ok()) {
                     if (service) {
                       ConfirmService(*found->second);
                     }
                   } else if (!absl::IsAlreadyExists(reply.status())) {
                     CompanionFailed(*found->second, key, reply.status());
                   } else if (service) {
                     ReadExistingService(*found->second);
                   }
                   // Names of host files and keys hold the job's UID: what exists is our own.
                 }));
}

// The name is taken: by our own earlier attempt, by the Service of a deleted job of this name that
// the garbage collector has not come to yet, or by somebody else's. With the last two the ranks
// would look for rank 0 in vain.
void JobController::ReadExistingService(JobState& state) {
  const std::string key = KeyOf(kube::kServices, state.meta().name);
  client_.Get(kube::kServices, {state.meta().namespace_name, state.meta().name}, kube::Lane::kWrite,
              alive_.Wrap([this, uid = state.meta().uid, key](absl::StatusOr<kube::Reply> reply) {
                const auto found = jobs_.find(uid);
                if (found == jobs_.end()) {
                  return;
                }
                JobState& job = *found->second;
                const absl::StatusOr<kube::RawObject> object =
                    reply.ok() ? kube::ObjectOf(*reply) : reply.status();
                const absl::StatusOr<kube::ObjectMeta> meta =
                    object.ok() ? kube::DecodeMeta(*object) : object.status();
                if (!meta.ok()) {
                  job.companions.erase(key);
                  Remind(job, kRetryFirst);
                  return;
                }
                const CompanionOwner owner = OwnerOf(*meta, job.meta());
                if (owner == CompanionOwner::kSomebodyElse && job.service_confirmed) {
                  // It was replaced under a gang that runs: ranks that found each other go on.
                  base::LogWarning("service_replaced", {{"job", job.meta().Key()}});
                } else if (owner == CompanionOwner::kSomebodyElse) {
                  CompanionFailed(
                      job, key,
                      absl::PermissionDeniedError(fmt::format(
                          "a Service {} exists that is not of this job, and the ranks find "
                          "rank 0 by that name: delete the Service, or rename the job",
                          job.meta().Key())));
                } else if (owner == CompanionOwner::kEarlierJob || meta->deletion_time) {
                  ReplaceEarlierService(job, meta->uid);
                } else {
                  ConfirmService(job);
                }
              }));
}

void JobController::ConfirmService(JobState& state) {
  state.service_seen = clock_.SteadyNow();
  if (!state.service_confirmed) {
    state.service_confirmed = true;
    MarkDirty(state.meta().uid);
  }
}

void JobController::ReplaceEarlierService(JobState& state, const std::string& service_uid) {
  if (!may_write_()) {
    return;
  }
  client_.Delete(kube::kServices, {state.meta().namespace_name, state.meta().name},
                 {.uid = service_uid},
                 alive_.Wrap([this, uid = state.meta().uid](const absl::StatusOr<kube::Reply>&) {
                   // Whatever the answer: the next attempt to create it tells.
                   if (const auto found = jobs_.find(uid); found != jobs_.end()) {
                     JobState& job = *found->second;
                     job.companions.erase(KeyOf(kube::kServices, job.meta().name));
                     MarkDirty(uid);
                   }
                 }));
}

void JobController::CompanionFailed(JobState& state, const std::string& key,
                                    const absl::Status& status) {
  state.companions.erase(key);
  if (Hopeless(status) && !state.blocks.empty()) {
    Withdraw(state, WithdrawReason(status),
             fmt::format("{}: {}", key, base::ToStd(status.message())));
    return;
  }
  Remind(state, kRetryFirst);
}

}  // namespace asterism::operators
