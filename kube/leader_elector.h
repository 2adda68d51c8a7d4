// File: kube/leader_elector.h
//
// Leader election over a Lease, by the algorithm of client-go tools/leaderelection. All intervals
// are measured on our steady clock; times written by others are never compared with it.
//
//   LeaderElector elector(clock, executor, rng, client,
//                         {.namespace_name = "asterism-system", .name = "asterism-controller",
//                          .identity = host_and_uuid},
//                         {.on_started = [&] {...}, .on_stopped = [&] {...}});
//   elector.Start();
//
// A leader that cannot renew has on_stopped called before its renew deadline is over, while nobody
// else can have taken the Lease. It gives no fencing: a leader whose process was suspended finds
// out only when it runs again, so IsLeader() also looks at the clock; ask it before every write.
//
// Thread-safety: lives on one executor. Cost: one request every `retry_period`, on the lease lane.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/rng.h"
#include "kube/client.h"
#include "kube/lease.h"

namespace asterism::kube {

struct LeaderElectorOptions {
  std::string namespace_name;
  std::string name;
  std::string identity;  // unique among candidates: host name + "_" + random
  // lease_duration > renew_deadline > retry_period * 1.2, and lease_duration is whole seconds,
  // because that is what the Lease records and others wait for (checked).
  absl::Duration lease_duration = absl::Seconds(15);
  absl::Duration renew_deadline = absl::Seconds(10);
  absl::Duration retry_period = absl::Seconds(2);
};

struct LeaderEvents {
  std::function<void()> on_started;
  std::function<void()> on_stopped;  // stop writing now
  std::function<void(const std::string& identity)> on_new_leader;
};

class LeaderElector {
 public:
  LeaderElector(const base::Clock& clock, base::Executor& executor, base::Rng rng, Client& client,
                LeaderElectorOptions options, LeaderEvents events);
  ~LeaderElector();

  void Start();
  // Steps down (on_stopped) and releases the Lease, so that another takes over at once; `done` is
  // called when that is written or has failed.
  void Stop(std::function<void()> done);

  // True while we lead and the renew deadline is not over, also when the executor is stuck. From
  // any thread.
  bool IsLeader() const;
  // Who holds the Lease as far as is known; empty: nobody.
  const std::string& leader() const { return leader_; }
  uint64_t slow_paths() const { return slow_paths_; }

 private:
  void Attempt();
  void Read();
  void OnRead(absl::StatusOr<Reply> reply);
  void Observe(Lease lease, std::string_view record);
  bool HeldByOther() const;
  void CreateLease();
  void WriteLease();
  void OnWritten(absl::StatusOr<Reply> reply);
  void OnAttemptEnd(bool renewed);
  void ScheduleNext();
  void CheckDeadline();
  void BecomeLeader();
  void StepDown();
  int32_t RecordedSeconds() const;
  std::string LeaseJson(const Lease& lease) const;
  absl::StatusOr<Lease> ReadLease(const Reply& reply) const;

  const base::Clock& clock_;
  base::Rng rng_;
  Client& client_;
  const LeaderElectorOptions options_;
  const LeaderEvents events_;

  bool running_ = false;
  bool leading_ = false;
  std::atomic<int64_t> leads_until_nanos_{0};  // steady time; 0: we do not lead
  bool attempt_running_ = false;
  std::string leader_;
  std::optional<Lease> observed_;
  std::string observed_record_;
  base::SteadyTime observed_at_;    // when we saw the record change
  base::SteadyTime attempt_began_;  // of the attempt that runs
  base::SteadyTime renewed_at_;     // begin of the last attempt that succeeded
  uint64_t slow_paths_ = 0;
  uint64_t attempt_ = 0;  // answers to older attempts are void
  std::function<void()> released_;
  base::OwnedTimer retry_timer_;
  base::OwnedTimer deadline_timer_;
  base::Alive alive_;
};

}  // namespace asterism::kube
