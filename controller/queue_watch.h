// File: controller/queue_watch.h
//
// Tells all who watch the queue what changes in it. While nobody watches it does nothing.
//
//   QueueWatch watch({clock, core, turns, plane, identity, access}, {});
//   watch.Add(stream, call);   // ends with the stream
//
// A caller is identified and its rights are looked at again every `renew_period`, and when jobs of
// a namespace come that was not looked at: a stream does not outlive its token or its right for
// long (answers of reviews are kept for a while, too). It ends with kUnavailable when this process
// leads no more. Jobs are looked at only once somebody who watches is known.
//
// Thread-safety: core executor only. Cost: O(jobs) each `tick` while somebody watches; messages are
// made on the worker, in the caller's turn, and where that takes long the newest state replaces the
// one that waits.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/executor.h"
#include "controller/access_review.h"
#include "controller/call_admission.h"
#include "controller/caller_identity.h"
#include "controller/caller_turns.h"
#include "controller/control_plane.h"
#include "controller/queue_state.h"
#include "controller/queue_stream.h"

namespace asterism::controller {

struct QueueWatchOptions {
  absl::Duration tick = absl::Milliseconds(250);
  absl::Duration renew_period = absl::Seconds(10);
};

class QueueWatch {
 public:
  struct Dependencies {
    const base::Clock& clock;
    base::Executor& core;
    CallerTurns& turns;
    ControlPlane& plane;
    CallerIdentity& identity;
    AccessReview& access;
  };

  QueueWatch(Dependencies dependencies, QueueWatchOptions options);

  void Add(std::shared_ptr<QueueStream> stream, std::shared_ptr<AdmittedCall> call);

 private:
  struct Latest;
  struct Watcher {
    std::shared_ptr<QueueStream> stream;
    std::shared_ptr<AdmittedCall> call;
    std::shared_ptr<Latest> latest;
    std::shared_ptr<const VisibleNamespaces> visible;  // null: not looked at yet
    std::set<std::string> looked_at;                   // namespaces
    base::SteadyTime renew_at;
    bool renewing = false;
  };

  void Tick();
  void Look();
  // Takes the picture of now; false when this process does not lead.
  bool Capture();
  bool LookedAtAll(const Watcher& watcher) const;
  void Renew(uint64_t id, Watcher& watcher);
  void OnCaller(uint64_t id, const std::shared_ptr<const Caller>& caller);
  void OnVisible(uint64_t id, const absl::StatusOr<VisibleNamespaces>& visible);
  void Offer(const Watcher& watcher);
  // Null when it is gone.
  Watcher* Find(uint64_t id);

  const Dependencies dependencies_;
  const QueueWatchOptions options_;
  std::map<uint64_t, Watcher> watchers_;
  uint64_t last_id_ = 0;
  std::shared_ptr<const QueueState> state_;
  base::OwnedTimer timer_;
  base::Alive alive_;
};

}  // namespace asterism::controller
