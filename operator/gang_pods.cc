#include "operator/gang_pods.h"

#include <algorithm>
#include <utility>

namespace asterism::operators {

GangPods::GangPods(const JobObservation& seen) : seen_(seen) {
  const auto& blocks = *seen.blocks;
  present_.resize(blocks.size(), nullptr);
  for (const auto& [name, job_pod] : *seen.pods) {
    const auto index = static_cast<size_t>(job_pod.mark.first_rank /
                                           std::max<int64_t>(1, seen.shape.processes_per_pod));
    const bool is_present = index < blocks.size() &&
                            blocks[index].first_rank == job_pod.mark.first_rank &&
                            blocks[index].epoch == job_pod.mark.epoch;
    if (is_present) {
      present_[index] = &job_pod;
    } else {
      superseded_.push_back(&job_pod);
    }
  }
}

bool GangPods::BlockSucceeded(size_t block) const {
  const scheduler::RankBlock& home = (*seen_.blocks)[block];
  return seen_.succeeded->contains({home.first_rank, home.epoch}) ||
         (present_[block] != nullptr && present_[block]->pod->phase == "Succeeded");
}

bool GangPods::GangSucceeded() const {
  const size_t needed =
      seen_.job->spec.success_policy == SuccessPolicy::kRankZero ? 1 : present_.size();
  for (size_t i = 0; i < needed; ++i) {
    if (!BlockSucceeded(i)) {
      return false;
    }
  }
  return needed > 0;
}

bool GangPods::Missing(size_t block) const {
  return present_[block] == nullptr && !BlockSucceeded(block);
}

PodCounts GangPods::Count() const {
  PodCounts counts{.desired = static_cast<int64_t>(present_.size())};
  for (size_t i = 0; i < present_.size(); ++i) {
    if (BlockSucceeded(i)) {
      ++counts.bound;
      ++counts.succeeded;
    } else if (present_[i] != nullptr) {
      const kube::Pod& pod = *present_[i]->pod;
      counts.bound += pod.node_name.empty() ? 0 : 1;
      counts.running += pod.phase == "Running" ? 1 : 0;
      counts.failed += pod.phase == "Failed" ? 1 : 0;
    }
  }
  return counts;
}

std::vector<LostPod> GangPods::FindLost(bool was_bound, bool has_run) const {
  std::vector<LostPod> lost;
  for (size_t i = 0; i < present_.size(); ++i) {
    const scheduler::RankBlock& block = (*seen_.blocks)[i];
    const JobPod* job_pod = present_[i];
    if (seen_.succeeded->contains({block.first_rank, block.epoch})) {
      continue;
    }
    const auto candidate = [&] {
      return LostPod{.first_rank = block.first_rank,
                     .ranks = std::max<int64_t>(1, seen_.shape.processes_per_pod),
                     .pod_name = PodName(seen_.job->meta, block.first_rank, block.epoch),
                     .node = block.node,
                     .node_gone = !seen_.node_ready(block.node),
                     .container_name = seen_.job->spec.container_name};
    };
    if (job_pod == nullptr) {
      if (!was_bound) {
        continue;
      }
      if (LostPod missing = candidate(); !seen_.creating->contains(missing.pod_name)) {
        lost.push_back(std::move(missing));
      }
      continue;
    }
    const kube::Pod& pod = *job_pod->pod;
    if (!has_run && RefusedByKubelet(pod)) {
      continue;
    }
    const bool bound = !pod.node_name.empty();
    const bool taken_away = bound && pod.Deleting() && !seen_.deleting->contains(pod.meta.uid) &&
                            pod.phase != "Succeeded";
    const bool node_deleted = bound && !seen_.node_exists(pod.node_name);
    const WorkerReport* report = seen_.report_of(pod);
    const bool ended = bound && pod.phase != "Succeeded" && !pod.Deleting() && EndedBadly(report);
    if (pod.phase == "Failed" || taken_away || ended ||
        (node_deleted && pod.phase != "Succeeded")) {
      LostPod& found = lost.emplace_back(candidate());
      found.pod = &pod;
      found.report = report;
      found.seen = job_pod->failed_since.value_or(base::SteadyTime{});
    }
  }
  return lost;
}

}  // namespace asterism::operators
