#include "kube/leader_elector.h"

#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "kube/decoder.h"
#include "nlohmann/json.hpp"

namespace asterism::kube {
namespace {

constexpr double kJitter = 0.2;

std::string MicroTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E6SZ", time, absl::UTCTimeZone());
}

// What is compared to see whether the holder is alive.
std::string Record(const Lease& lease) {
  return fmt::format("{} {} {} {} {}", lease.holder, lease.duration_seconds, lease.transitions,
                     MicroTime(lease.acquire_time), MicroTime(lease.renew_time));
}

}  // namespace

LeaderElector::LeaderElector(const base::Clock& clock, base::Executor& executor, base::Rng rng,
                             Client& client, LeaderElectorOptions options, LeaderEvents events)
    : clock_(clock),
      rng_(rng),
      client_(client),
      options_(std::move(options)),
      events_(std::move(events)),
      retry_timer_(executor),
      deadline_timer_(executor) {
  CHECK_THAT(!options_.identity.empty(), "leader election needs an identity");
  CHECK_THAT(options_.lease_duration >= absl::Seconds(1) &&
                 options_.lease_duration == absl::Seconds(RecordedSeconds()),
             "leader election: the lease duration must be whole seconds");
  CHECK_THAT(options_.lease_duration > options_.renew_deadline &&
                 options_.renew_deadline > options_.retry_period * (1 + kJitter),
             "leader election: lease duration > renew deadline > retry period x 1.2 must hold");
}

LeaderElector::~LeaderElector() = default;

int32_t LeaderElector::RecordedSeconds() const {
  return static_cast<int32_t>(absl::ToInt64Seconds(options_.lease_duration));
}

void LeaderElector::Start() {
  if (!running_) {
    running_ = true;
    Attempt();
  }
}

void LeaderElector::Stop(std::function<void()> done) {
  running_ = false;
  retry_timer_.Cancel();
  released_ = std::move(done);
  StepDown();
  if (!attempt_running_) {
    OnAttemptEnd(false);
  }
}

bool LeaderElector::IsLeader() const {
  return clock_.SteadyNow().nanos < leads_until_nanos_;
}

void LeaderElector::Attempt() {
  CheckDeadline();
  attempt_running_ = true;
  ++attempt_;
  attempt_began_ = clock_.SteadyNow();
  if (leading_ && observed_.has_value() && observed_->holder == options_.identity) {
    WriteLease();
    return;
  }
  Read();
}

void LeaderElector::Read() {
  ++slow_paths_;
  client_.Get(kLeases, {options_.namespace_name, options_.name}, Lane::kLease,
              alive_.Wrap([this, attempt = attempt_](absl::StatusOr<Reply> reply) {
                if (attempt == attempt_) {
                  OnRead(std::move(reply));
                }
              }));
}

void LeaderElector::OnRead(absl::StatusOr<Reply> reply) {
  if (absl::IsNotFound(reply.status()) && running_) {
    CreateLease();
    return;
  }
  absl::StatusOr<Lease> lease = reply.ok() ? ReadLease(*reply) : reply.status();
  if (!lease.ok()) {
    base::LogWarning("lease_unreadable",
                     {{"lease", options_.name}, {"error", std::string(lease.status().message())}});
    OnAttemptEnd(false);
    return;
  }
  const std::string record = Record(*lease);
  Observe(*std::move(lease), record);
  if (!running_ || HeldByOther()) {
    OnAttemptEnd(false);
    return;
  }
  WriteLease();
}

void LeaderElector::Observe(Lease lease, std::string_view record) {
  if (record != observed_record_) {
    observed_record_ = record;
    observed_at_ = clock_.SteadyNow();
  }
  observed_ = std::move(lease);
  if (leader_ != observed_->holder) {
    leader_ = observed_->holder;
    if (events_.on_new_leader) {
      events_.on_new_leader(leader_);
    }
  }
}

bool LeaderElector::HeldByOther() const {
  return !observed_->holder.empty() && observed_->holder != options_.identity &&
         clock_.SteadyNow() < observed_at_ + absl::Seconds(observed_->duration_seconds);
}

absl::StatusOr<Lease> LeaderElector::ReadLease(const Reply& reply) const {
  ASSIGN_OR_RETURN(const RawObject object, ObjectOf(reply));
  return DecodeLease(object);
}

std::string LeaderElector::LeaseJson(const Lease& lease) const {
  nlohmann::json metadata = {{"namespace", options_.namespace_name}, {"name", options_.name}};
  if (!lease.meta.resource_version.empty()) {
    metadata["resourceVersion"] = lease.meta.resource_version;
  }
  for (const auto& [key, value] : lease.meta.labels) {
    metadata["labels"][key] = value;
  }
  for (const auto& [key, value] : lease.meta.annotations) {
    metadata["annotations"][key] = value;
  }
  const nlohmann::json body = {{"apiVersion", "coordination.k8s.io/v1"},
                               {"kind", "Lease"},
                               {"metadata", metadata},
                               {"spec",
                                {{"holderIdentity", lease.holder},
                                 {"leaseDurationSeconds", lease.duration_seconds},
                                 {"leaseTransitions", lease.transitions},
                                 {"acquireTime", MicroTime(lease.acquire_time)},
                                 {"renewTime", MicroTime(lease.renew_time)}}}};
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void LeaderElector::CreateLease() {
  Lease lease;
  lease.holder = options_.identity;
  lease.duration_seconds = RecordedSeconds();
  lease.acquire_time = lease.renew_time = clock_.Now();
  client_.Create(kLeases, options_.namespace_name, LeaseJson(lease), {}, Lane::kLease,
                 alive_.Wrap([this, attempt = attempt_](absl::StatusOr<Reply> reply) {
                   if (attempt == attempt_) {
                     OnWritten(std::move(reply));
                   }
                 }));
}

void LeaderElector::WriteLease() {
  Lease lease = *observed_;
  lease.renew_time = clock_.Now();
  if (lease.holder != options_.identity) {
    lease.holder = options_.identity;
    lease.acquire_time = lease.renew_time;
    ++lease.transitions;
  }
  lease.duration_seconds = RecordedSeconds();
  client_.Update(kLeases, {options_.namespace_name, options_.name}, LeaseJson(lease), Lane::kLease,
                 alive_.Wrap([this, attempt = attempt_](absl::StatusOr<Reply> reply) {
                   if (attempt == attempt_) {
                     OnWritten(std::move(reply));
                   }
                 }));
}

void LeaderElector::OnWritten(absl::StatusOr<Reply> reply) {
  absl::StatusOr<Lease> lease = reply.ok() ? ReadLease(*reply) : reply.status();
  if (lease.ok()) {
    const std::string record = Record(*lease);
    Observe(*std::move(lease), record);
    OnAttemptEnd(true);
    return;
  }
  base::LogWarning("lease_not_written",
                   {{"lease", options_.name}, {"error", std::string(lease.status().message())}});
  const bool stale = absl::IsAborted(lease.status()) || absl::IsNotFound(lease.status()) ||
                     absl::IsAlreadyExists(lease.status());
  const bool was_fast = leading_ && observed_.has_value();
  // What we knew is not what the server has: the next write must follow a read.
  observed_.reset();
  if (stale && was_fast && running_) {
    Read();
    return;
  }
  OnAttemptEnd(false);
}

void LeaderElector::OnAttemptEnd(bool renewed) {
  attempt_running_ = false;
  if (running_) {
    // An answer that comes after the deadline of its own attempt is worth nothing.
    if (renewed && clock_.SteadyNow() < attempt_began_ + options_.renew_deadline) {
      renewed_at_ = attempt_began_;
      BecomeLeader();
    } else if (leading_ && observed_.has_value() && observed_->holder != options_.identity) {
      StepDown();
    }
    ScheduleNext();
    return;
  }
  if (observed_.has_value() && observed_->holder == options_.identity) {
    Lease lease = *std::exchange(observed_, std::nullopt);
    lease.holder.clear();
    lease.duration_seconds = 1;
    lease.acquire_time = lease.renew_time = clock_.Now();
    client_.Update(kLeases, {options_.namespace_name, options_.name}, LeaseJson(lease),
                   Lane::kLease, alive_.Wrap([this](const absl::StatusOr<Reply>& reply) {
                     base::LogInfo("lease_released",
                                   {{"lease", options_.name},
                                    {"error", std::string(reply.status().message())}});
                     OnAttemptEnd(false);
                   }));
    return;
  }
  if (released_) {
    std::exchange(released_, nullptr)();
  }
}

void LeaderElector::ScheduleNext() {
  const double jitter = leading_ ? 0 : kJitter * rng_.Uniform();
  retry_timer_.Start(options_.retry_period * (1 + jitter), [this] { Attempt(); });
}

void LeaderElector::CheckDeadline() {
  if (leading_ && clock_.SteadyNow() >= renewed_at_ + options_.renew_deadline) {
    base::LogError("lease_lost", {{"lease", options_.name}, {"identity", options_.identity}});
    StepDown();
  }
}

void LeaderElector::BecomeLeader() {
  const absl::Duration left = renewed_at_ + options_.renew_deadline - clock_.SteadyNow();
  deadline_timer_.Start(left, [this] { CheckDeadline(); });
  leads_until_nanos_ = (renewed_at_ + options_.renew_deadline).nanos;
  if (leading_) {
    return;
  }
  leading_ = true;
  base::LogInfo("lease_acquired", {{"lease", options_.name}, {"identity", options_.identity}});
  if (events_.on_started) {
    events_.on_started();
  }
}

void LeaderElector::StepDown() {
  deadline_timer_.Cancel();
  if (!leading_) {
    return;
  }
  leading_ = false;
  leads_until_nanos_ = 0;
  if (events_.on_stopped) {
    events_.on_stopped();
  }
}

}  // namespace asterism::kube
