// File: operator/job_controller.h
//
// Carries TrainingJobs through their life: observes jobs and pods, asks DecideJob what is to be
// done, and does it through the API server, the ledger and the gang queue. Exists only while this
// process leads; a new leader builds a new one from the informers' stores.
//
//   JobController controller(clock, executor, client, feed, environment, metrics, record, options);
//   controller.Start(jobs.store(), pods.store());   // rebuilds ledger and states; then goes on
//   controller.OnJob(change);  controller.OnPod(change);  controller.OnEnvironmentChange();
//
// Order of effects, which makes every kill harmless: a status that changes a job's homes or its end
// is acknowledged by the API server before any pod is created or deleted because of it. All names
// are fixed, so that a repeated create meets its own pod.
//
// Thread-safety: none; core executor only. Cost: one DecideJob for a burst of events of one job.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/strings.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "kube/work_queue.h"
#include "operator/admission.h"
#include "operator/cluster_feed.h"
#include "operator/gang_dispatcher.h"
#include "operator/job_metrics.h"
#include "operator/job_plan.h"
#include "operator/job_reconciler.h"
#include "operator/job_state.h"
#include "operator/worker_reports.h"
#include "scheduler/single_pods_in_flight.h"

namespace asterism::operators {

class JobController {
 public:
  struct Options {
    std::string field_manager = "asterism-controller";
    absl::Duration bind_deadline = absl::Seconds(30);
    // Events of one burst are looked at together, those of a gang of 1,280 pods every 69 ms.
    absl::Duration settle = absl::Milliseconds(5);
    absl::Duration settle_per_pod = absl::Microseconds(50);
    absl::Duration settle_max = absl::Milliseconds(250);
    size_t creates_per_visit = 256;
    // What launchers told; outlives the controller. Null: nothing ever comes.
    WorkerReports* reports = nullptr;
    // Single pods that kube-scheduler may be binding; outlives the controller. Null: there are
    // none.
    scheduler::SinglePodsInFlight* in_flight = nullptr;
    // Where plans are searched, which may take seconds; outlives the controller. Null: on the core.
    base::Executor* planner = nullptr;
  };
  // What happened to a job, for people; becomes an Event.
  using Recorder = std::function<void(const TrainingJob&, const EventNote&)>;
  // False when this process must not write any more (the lease ran out).
  using MayWrite = std::function<bool()>;

  JobController(base::Clock& clock, base::Executor& executor, kube::Client& client,
                ClusterFeed& feed, const AdmissionEnvironment& environment, JobMetrics& metrics,
                Recorder record, MayWrite may_write, Options options);
  ~JobController();
  JobController(const JobController&) = delete;
  JobController& operator=(const JobController&) = delete;

  // The rebuild: books every placed gang, then looks at every job once.
  void Start(const kube::Store<TrainingJob>& jobs, const kube::Store<kube::Pod>& pods);

  void OnJob(const kube::Change<TrainingJob>& change);
  void OnPod(const kube::Change<kube::Pod>& change);
  // What a launcher told of its pod has changed.
  void OnWorkerReport(std::string_view pod_uid);
  void OnNode(const kube::Change<kube::Node>& change);
  // Queues, namespaces or priority classes changed.
  void OnEnvironmentChange();
  void set_bind_deadline(absl::Duration deadline) { options_.bind_deadline = deadline; }

  // Brings the metrics of the queue up to date. O(jobs).
  void ReportQueue();

  GangDispatcher& dispatcher() { return dispatcher_; }
  const GangDispatcher& dispatcher() const { return dispatcher_; }
  // For status pages and tests; sorted by uid.
  const std::map<std::string, std::unique_ptr<JobState>, std::less<>>& jobs() const {
    return jobs_;
  }

 private:
  void AdoptJob(kube::Shared<TrainingJob> job);
  void AdoptPod(const kube::Shared<kube::Pod>& pod, const GangPodMark& mark);
  void RestorePlacement(JobState& state);
  void ForgetIfDone(const std::string& uid);
  void ForgetPod(const std::string& uid, const kube::Pod& pod);
  void NoteProgress(const kube::Pod& before, const kube::Pod* after);

  void MarkDirty(const std::string& uid);
  void MarkAllDirty();
  void MarkJobsOnNode(const std::string& node);
  // Visits the job after `delay`, or earlier when something earlier is due; a visit before that
  // says anew when the next is due.
  void Remind(JobState& state, absl::Duration delay);
  void VisitDue();
  void Visit(JobState& state);
  void VisitGone(JobState& state);
  void ObserveIntervals(JobState& state, JobObservation& seen) const;
  JobObservation Observe(JobState& state) const;
  void RefreshAdmission(JobState& state);
  const PlanWish& WishFor(JobState& state);
  const PlanStatus* AppliedPlan(JobState& state);
  const std::map<std::string, ProductLevels>& LevelsOfProducts(size_t gpu_slot);
  bool RefreshPlan(JobState& state);
  void LookAtModel(JobState& state, absl::Duration period);
  void ReadModel(JobState& state, absl::Duration period);
  bool TakeModel(JobState& state, JobPlanQuestion& question);
  void TellChangedModel(JobState& state);
  void AskPlanner(JobState& state, JobPlanQuestion question);
  void OnPlanned(const std::string& uid, const std::string& asked, JobPlanAnswer answer);
  void AskDryRunWhenDue(JobState& state);
  void StartDryRun(JobState& state);
  void OnDryRun(JobState& state, const absl::StatusOr<kube::Reply>& reply);
  void TakeServerPod(JobState& state, const absl::StatusOr<kube::Reply>& reply);
  void CarryOut(JobState& state, JobDecision& decision);
  void CarryOutOnPods(JobState& state, const JobDecision& decision);
  void ObserveStages(JobState& state, TrainingJobStatus& next);
  void CountState(JobState& state, const std::string& now);

  void RequestPass();
  void RunPass();
  void OnDispatched(const DispatchResult& result);
  void ApplyPlacement(JobState& state, const scheduler::Placed& placed,
                      const std::vector<bool>& moved, absl::Duration decide);
  void CarryOutRestart(JobState& state, const Restart& restart);
  void CarryOutMoves(JobState& state, const std::vector<BlockMove>& moves);
  void Withdraw(JobState& state, std::string_view reason, const std::string& message);
  void LosePlacement(JobState& state, const std::string& reason, const std::string& message);
  void Release(JobState& state);
  void BookGang(JobState& state);
  // Replaces spares whose node is lost, and takes or gives back what spec.failover.spares changed.
  void LookAfterSpares(JobState& state);
  void FindSpares(JobState& state, std::vector<scheduler::Spare>& kept);
  bool SpareHolds(const JobState& state, const scheduler::Spare& spare) const;
  void TakeSpares(JobState& state, std::vector<scheduler::Spare> spares);
  scheduler::PlacementOutcome PlaceBesideSpares(const JobState& state,
                                                scheduler::PlacementRequest request) const;
  void EnqueueGang(JobState& state);
  scheduler::PlacementRequest RequestOf(const JobState& state);

  std::string WhyNotBoundNow(const JobState& state, const std::string& node) const;
  bool CommitsDirectly(JobState& state, const scheduler::RankBlock& block) const;
  void CreatePod(JobState& state, size_t block);
  void OnPodCreated(const std::string& uid, const std::string& name, int64_t epoch,
                    const absl::StatusOr<kube::Reply>& reply);
  void NoteCreateError(JobState& state, const std::string& name, const absl::Status& status);
  void ConfirmExistingPod(const std::string& uid, const std::string& name, int64_t epoch);
  void RemovePod(JobState& state, const PodRemoval& removal);
  void Supersede(JobState& state, const std::string& pod_name);
  void CreateCompanions(JobState& state);
  void CreateCompanion(JobState& state, const kube::ResourceType& type, const std::string& name,
                       std::string body);
  void ReadExistingService(JobState& state);
  void ConfirmService(JobState& state);
  void LookAfterService(JobState& state);
  void ReplaceEarlierService(JobState& state, const std::string& service_uid);
  void CompanionFailed(JobState& state, const std::string& key, const absl::Status& status);
  void DeleteJob(JobState& state);

  void WriteStatus(JobState& state);
  void OnStatusWritten(const std::string& uid, const absl::StatusOr<kube::Reply>& reply);
  void ReadBack(JobState& state);
  void AdoptStatus(JobState& state, kube::Shared<TrainingJob> job);
  bool Overlaps(const JobState& state) const;

  base::Clock& clock_;
  base::Executor& executor_;
  kube::Client& client_;
  ClusterFeed& feed_;
  const AdmissionEnvironment& environment_;
  JobMetrics& metrics_;
  Recorder record_;
  MayWrite may_write_;
  Options options_;

  GangDispatcher dispatcher_;
  ProductLevelsCache product_levels_;
  std::map<std::string, std::unique_ptr<JobState>, std::less<>> jobs_;  // by uid
  base::StringMap<std::string> job_of_pod_;                             // UIDs
  kube::WorkQueue<std::string> work_;                                   // uids of the jobs to visit
  uint64_t environment_version_ = 1;  // of everything Admit reads beside the job
  int dry_runs_in_flight_ = 0;
  base::SteadyTime last_bind_;  // of a pod of any gang
  base::OwnedTimer pass_timer_;
  base::Alive alive_;
};

}  // namespace asterism::operators
