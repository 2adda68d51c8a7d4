// File: operator/gang_pods.h
//
// The pods of a placed gang, sorted by what they are to its rank blocks, and what they tell: how
// many run, which are lost, whether the gang is done.
//
//   const GangPods pods(observation);
//   pods.present()[3]            // the pod of block 3, or null
//   pods.FindLost(was_bound)
//
// Thread-safety: pure; the observation outlives it. Cost: O(pods).
#pragma once

#include <vector>

#include "operator/job_reconciler.h"

namespace asterism::operators {

class GangPods {
 public:
  explicit GangPods(const JobObservation& seen);

  // One a block, null: it has no pod.
  const std::vector<const JobPod*>& present() const { return present_; }
  // Of an older epoch, or of no block.
  const std::vector<const JobPod*>& superseded() const { return superseded_; }

  // The block is done, whether its pod is still there or not.
  bool BlockSucceeded(size_t block) const;
  // By spec.successPolicy.
  bool GangSucceeded() const;
  // A block has no pod and needs one.
  bool Missing(size_t block) const;
  PodCounts Count() const;
  // Blocks whose pod failed or is gone. A pod that never was bound is not lost, only not there yet.
  // While the gang has never run, one that its kubelet refused is none: it moves.
  std::vector<LostPod> FindLost(bool was_bound, bool has_run) const;

 private:
  const JobObservation& seen_;
  std::vector<const JobPod*> present_;
  std::vector<const JobPod*> superseded_;
};

}  // namespace asterism::operators
