// File: controller/control_plane.h
//
// Wires the modules of asterism-controller together: informers feed the model, the Lease decides
// who acts, the operator acts, the extender answers from the published ledger.
//
//   ControlPlane plane(dependencies, configuration, identity);
//   executor.Post([&] { plane.Start(); });
//   routes: plane.extender(), plane.Missing(), plane.leading()
//
// A standby runs all informers and keeps the model warm; taking over is a look at every job.
// Leading ends with the Lease: the operator is destroyed at once and nothing is written any more.
//
// Thread-safety: Start, Stop and what says so on the executor; everything else that is public from
// any thread. Cost: one decoded object for each pod, node and job of the
// cluster.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/metrics.h"
#include "base/rng.h"
#include "base/snapshot.h"
#include "controller/agent_registry.h"
#include "controller/calibration_keeper.h"
#include "controller/clock_watch.h"
#include "controller/cluster_topology.h"
#include "controller/configuration.h"
#include "controller/domain_labels.h"
#include "controller/endpoint_publisher.h"
#include "controller/fabric_files.h"
#include "controller/missing_agents.h"
#include "controller/topology_metrics.h"
#include "controller/topology_state.h"
#include "kube/client.h"
#include "kube/event_recorder.h"
#include "kube/informer.h"
#include "kube/leader_elector.h"
#include "kube/namespace.h"
#include "kube/node.h"
#include "kube/pod.h"
#include "kube/priority_class.h"
#include "kube/watch_metrics.h"
#include "kube/watch_source.h"
#include "operator/admission.h"
#include "operator/cluster_feed.h"
#include "operator/job_controller.h"
#include "operator/job_metrics.h"
#include "operator/node_closer.h"
#include "operator/queue.h"
#include "operator/queue_controller.h"
#include "operator/training_job.h"
#include "operator/worker_reports.h"
#include "scheduler/extender/extender.h"
#include "scheduler/ledger.h"
#include "scheduler/single_pods_in_flight.h"

namespace asterism::controller {

struct Identity {
  std::string namespace_name = "asterism-system";  // of the Lease and of the extender's Service
  std::string name;                                // unique: host name + "_" + random
  std::string pod_ip;    // address for the extender's EndpointSlice; empty: not published
  std::string pod_name;  // of the pod with that address; may be empty
};

class ControlPlane {
 public:
  struct Dependencies {
    base::Clock& clock;
    base::Executor& executor;
    base::Rng rng;
    kube::Client& client;
    kube::WatchSource& source;
    base::MetricRegistry& registry;
    // For what would hold up `executor`. Null: that one does it.
    base::Executor* planner = nullptr;  // where plans are searched
    base::Executor* work = nullptr;     // the import of large files
  };

  ControlPlane(Dependencies dependencies, const Configuration& configuration, Identity identity);
  ~ControlPlane();

  void Start();
  // Gives the Lease back and stops acting; `done` is called when the API server has been told, or
  // after two seconds.
  void Stop(absl::AnyInvocable<void()> done);
  // Takes over what may change while running.
  void Reload(const Configuration& configuration);

  scheduler::Extender& extender() { return *extender_; }
  // Holds the Lease by the clock of this moment. On the executor; a client asks it when it sends,
  // so that what waited in a queue does not go out after the Lease is lost.
  bool MayWrite() const;
  // Leading, and the ledger is rebuilt: the extender may answer.
  // The Lease's time counts, too: a stuck core must not answer for a leader that is none any more.
  bool leading() const { return leading_ && MayWrite(); }
  // What is still missing before this process could act; empty: ready (a standby too).
  std::vector<std::string> Missing() const;
  std::shared_ptr<const scheduler::LedgerView> view() const { return view_cell_.Load(); }
  // Extended resources that count GPUs.
  const std::vector<std::string>& gpu_resources() const { return gpu_resources_; }
  // Identity of the one that leads, as far as is known; empty: nobody.
  std::string leader() const;

  // What is known about the topology and where from; never null.
  std::shared_ptr<const TopologyState> topology_state() const { return topology_cell_.Load(); }

  // On the executor; what they told.
  AgentRegistry& agents() { return agents_; }
  // From any thread.
  DeviceHolders device_holders() const { return agents_.Holders(); }

  // What calibration has found on this cluster.
  CalibrationKeeper& calibrations() { return *calibrations_; }

  // On the executor. The jobs that are carried through their life: null while another leads.
  const operators::JobController* jobs() const { return jobs_.get(); }
  const operators::AdmissionEnvironment& environment() const { return *environment_; }
  const kube::Store<operators::TrainingJob>& job_store() const { return jobs_informer_->store(); }

 private:
  template <typename T>
  using InformerPtr = std::unique_ptr<kube::Informer<T>>;

  AgentRegistry::Dependencies AgentDependencies();
  void MakeInformers();
  void MakeEnvironment(const Configuration& configuration);
  void MakeExtender();
  void MakeElector(const LeaderElectionConfiguration& times);
  void OnSynced(std::string_view kind);
  void OnListed(std::string_view kind);
  void MakeCalibrationKeeper();
  void RebuildWhenReady();
  void OnEnvironment();
  void OnPod(const kube::Change<kube::Pod>& change);
  void NoteUnboundSinglePods();
  void PublishSoon();
  bool AllSynced() const;
  void OnLeading();
  void OnLeadershipLost();
  void Rebuild();
  void PublishEndpoint();
  void ReportMetrics();
  void Record(const operators::TrainingJob& job, const operators::EventNote& note);
  void OnNewLeader(const std::string& leader);
  void TellAboutNode(const NodeNote& note);
  void PublishModel();
  void PublishTopologyState();
  void LookAtTopology();
  void StartTopologyWriters();

  Dependencies dependencies_;
  const Identity identity_;
  operators::JobController::Options job_options_;
  const PortConfiguration ports_;
  const bool taint_nodes_;
  const std::vector<std::string> gpu_resources_;

  const bool label_nodes_;
  const std::vector<std::string> level_names_;

  base::SnapshotCell<scheduler::LedgerView> view_cell_;
  base::SnapshotCell<TopologyState> topology_cell_;
  operators::WorkerReports reports_;
  scheduler::SinglePodsInFlight single_pods_;
  AgentRegistry agents_;
  operators::ClusterFeed feed_;
  operators::JobMetrics job_metrics_;
  TopologyMetrics topology_metrics_;
  MissingAgents missing_agents_;
  // As last looked at: the model, and how many nodes take no gang.
  std::shared_ptr<const topology::Cluster> seen_cluster_;
  size_t seen_unhealthy_ = 0;
  kube::WatchMetrics watch_metrics_;
  base::Gauge& leading_gauge_;
  ClockWatch clock_watch_;
  base::Gauge& open_nodes_gauge_;
  base::Counter& log_lines_lost_;
  base::HistogramFamily& rebuild_seconds_;

  InformerPtr<kube::Node> nodes_;
  InformerPtr<kube::Pod> pods_;
  InformerPtr<kube::Namespace> namespaces_;
  InformerPtr<kube::PriorityClass> priority_classes_;
  InformerPtr<operators::Queue> queues_;
  InformerPtr<operators::TrainingJob> jobs_informer_;
  std::unique_ptr<operators::AdmissionEnvironment> environment_;
  std::unique_ptr<CalibrationKeeper> calibrations_;

  std::unique_ptr<kube::EventRecorder> events_;
  std::unique_ptr<kube::LeaderElector> elector_;
  std::unique_ptr<operators::JobController> jobs_;
  std::unique_ptr<operators::QueueController> queue_controller_;
  std::unique_ptr<operators::NodeCloser> node_closer_;       // null: nodes stay open, or a standby
  std::unique_ptr<DomainLabels> domain_labels_;              // null: not wanted, or a standby
  std::unique_ptr<ClusterTopologyWriter> cluster_topology_;  // null: a standby
  std::unique_ptr<FabricFiles> fabric_files_;
  std::unique_ptr<EndpointPublisher> endpoint_;
  std::unique_ptr<scheduler::Extender> extender_;

  std::atomic<bool> holds_lease_{false};
  base::SteadyTime lease_won_;
  std::set<std::string, std::less<>> awaited_lists_;  // before a rebuild
  std::atomic<bool> leading_{false};
  mutable absl::Mutex mutex_;
  std::vector<std::string> missing_ ABSL_GUARDED_BY(mutex_);
  std::string leader_ ABSL_GUARDED_BY(mutex_);
  base::OwnedTimer publish_timer_;
  base::OwnedTimer metrics_timer_;
};

}  // namespace asterism::controller
