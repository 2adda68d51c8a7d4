// What the pod watch tells a job: its pods come, change and go.
#include <utility>

#include "operator/job_controller.h"

namespace asterism::operators {

void JobController::AdoptPod(const kube::Shared<kube::Pod>& pod, const GangPodMark& mark) {
  JobPod job_pod{.pod = pod, .mark = mark, .first_seen = clock_.SteadyNow()};
  const auto found = jobs_.find(mark.job_uid);
  if (found == jobs_.end() || found->second->meta().namespace_name != pod->meta.namespace_name) {
    return;  // the job is gone and the garbage collector takes its pods, or it is no pod of ours
  }
  JobState& state = *found->second;
  if (const auto known = state.pods.find(pod->meta.name);
      known != state.pods.end() && known->second.pod->meta.uid == pod->meta.uid) {
    job_pod.first_seen = known->second.first_seen;
    job_pod.unschedulable_since = known->second.unschedulable_since;
    job_pod.failed_since = known->second.failed_since;
  }
  const kube::Condition* scheduled = kube::FindCondition(pod->conditions, "PodScheduled");
  if (scheduled == nullptr || scheduled->status != "False" ||
      scheduled->reason != "Unschedulable") {
    job_pod.unschedulable_since.reset();
  } else if (!job_pod.unschedulable_since) {
    job_pod.unschedulable_since = clock_.SteadyNow();
  }
  if (pod->phase == "Failed" && !job_pod.failed_since) {
    job_pod.failed_since = clock_.SteadyNow();
  }
  state.creating.erase(pod->meta.name);
  state.create_errors.erase(pod->meta.name);
  if (pod->phase == "Succeeded") {
    state.succeeded.insert({mark.first_rank, mark.epoch});
  }
  job_of_pod_[pod->meta.uid] = mark.job_uid;
  state.pods[pod->meta.name] = std::move(job_pod);
}

void JobController::OnPod(const kube::Change<kube::Pod>& change) {
  const bool gone = change.after == nullptr ||
                    (change.before != nullptr && change.before->meta.uid != change.after->meta.uid);
  GangPodMark mark;
  if (change.before != nullptr) {
    NoteProgress(*change.before, change.after.get());
    if (gone && ReadGangPodMark(*change.before, mark)) {
      ForgetPod(mark.job_uid, *change.before);
    }
  }
  if (gone) {
    RequestPass();  // room came free, whoever held it
  } else if (change.before != nullptr && change.after->Terminal() && !change.before->Terminal()) {
    RequestPass();
  }
  if (change.after != nullptr && ReadGangPodMark(*change.after, mark)) {
    AdoptPod(change.after, mark);
    MarkDirty(mark.job_uid);
  }
}

void JobController::OnWorkerReport(std::string_view pod_uid) {
  if (const auto job = job_of_pod_.find(pod_uid); job != job_of_pod_.end()) {
    MarkDirty(job->second);
  }
}

void JobController::ForgetPod(const std::string& uid, const kube::Pod& pod) {
  job_of_pod_.erase(pod.meta.uid);
  if (options_.reports != nullptr) {
    options_.reports->Erase(pod.meta.uid, pod.node_name);
  }
  const auto found = jobs_.find(uid);
  if (found == jobs_.end()) {
    return;
  }
  JobState& state = *found->second;
  const auto known = state.pods.find(pod.meta.name);
  if (known != state.pods.end() && known->second.pod->meta.uid == pod.meta.uid) {
    state.pods.erase(known);
  }
  state.deleting.erase(pod.meta.uid);
  state.superseding.erase(pod.meta.name);
  MarkDirty(uid);
}

// Pods are bound one after another: one that waits behind others is not stuck.
void JobController::NoteProgress(const kube::Pod& before, const kube::Pod* after) {
  if (after != nullptr && before.node_name.empty() && !after->node_name.empty() &&
      !after->meta.Label(kJobUidLabel).empty()) {
    last_bind_ = clock_.SteadyNow();
  }
}

}  // namespace asterism::operators
