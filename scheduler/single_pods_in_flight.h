// File: scheduler/single_pods_in_flight.h
//
// Single pods that the extender let pass and that are not seen bound yet. kube-scheduler may bind
// each of them at any moment, to a node that had room when it was asked about, and until then no
// ledger holds them. Who binds gangs without kube-scheduler asks here first: while there is one,
// only kube-scheduler, which keeps both in its own books, can tell whether both fit.
//
//   in_flight.Passed(uid, "research/notebook");    // the extender
//   in_flight.Settled(uid);                        // the watch: bound, ended or gone
//   if (std::string pod = in_flight.Any(); !pod.empty()) ...   // who commits
//
// Why that is enough: the extender answers from a ledger that it loads after Passed; a gang is in
// the published ledger before Any is asked. So either the answer knew the gang, or Any knows the
// pod.
//
// A pod that never comes back is forgotten after kLongestBinding.
//
// Thread-safety: from any threads. Cost: a lock and a hash look-up; Any, and Passed where there are
// many, look at all.
#pragma once

#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/strings.h"

namespace asterism::scheduler {

class SinglePodsInFlight {
 public:
  // kube-scheduler gives up a pod whose volumes are not bound after 600 s (bindTimeoutSeconds); a
  // pod that it tries again it asks about again.
  static constexpr absl::Duration kLongestBinding = absl::Minutes(11);

  explicit SinglePodsInFlight(const base::Clock& clock) : clock_(clock) {}

  // `name`: "namespace/name", for people.
  void Passed(std::string_view uid, std::string_view name);
  void Settled(std::string_view uid);

  // Name of one of them; empty: there is none.
  std::string Any();
  size_t size() const;

 private:
  struct Pod {
    std::string name;
    base::SteadyTime passed;
  };

  void ForgetOld(base::SteadyTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const base::Clock& clock_;
  mutable absl::Mutex mutex_;
  base::StringMap<Pod> pods_ ABSL_GUARDED_BY(mutex_);  // by uid
};

}  // namespace asterism::scheduler
