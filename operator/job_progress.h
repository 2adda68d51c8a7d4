// File: operator/job_progress.h
//
// What the launchers of a placed gang tell about the job's progress: the newest step, who would
// know of one and is not heard, and whether the job hangs (spec.progress).
//
//   const JobProgress progress(observation, pods, /*running=*/true);
//   progress.Newest();                          // of all ranks
//   const HangLook look = progress.LookForHang();
//
// Thread-safety: pure; observation and pods outlive it. Cost: O(pods).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "operator/gang_pods.h"
#include "operator/job_reconciler.h"

namespace asterism::operators {

struct HangLook {
  std::optional<FirstCause> cause;                       // empty: it does not hang
  absl::Duration look_again = absl::InfiniteDuration();  // when time alone changes the answer
};

class JobProgress {
 public:
  // `running`: the condition Running is True.
  JobProgress(const JobObservation& seen, const GangPods& pods, bool running);

  const std::optional<WorkerProgress>& Newest() const { return newest_; }
  // Of the job's file, in the words of a launcher; empty: none.
  const std::string& Problem() const { return problem_; }
  // Empty: somebody who would know of progress is heard, or nobody ever was.
  std::string WhoIsNotHeard() const;
  // No rank told any progress for as long as the job allows. Without a launcher that speaks to its
  // agent, and an agent that speaks to us, nobody could know: the deadline counts from when both
  // do.
  HangLook LookForHang() const;

 private:
  using Witness = std::pair<const JobPod*, const WorkerReport*>;

  const JobObservation& seen_;
  const bool running_;
  std::optional<WorkerProgress> newest_;
  std::string problem_;
  // Those that run and ever told a step, or all that run and have a launcher while none did: the
  // others do not know how far the job is.
  std::vector<Witness> witnesses_;
};

}  // namespace asterism::operators
