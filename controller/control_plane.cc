#include "controller/control_plane.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "kube/decoder.h"

namespace asterism::controller {
namespace {

constexpr std::string_view kProgram = "asterism-controller";
constexpr std::string_view kLease = "asterism-controller";
// A view costs O(nodes): of 1,280 there is a new one every 56 ms at most, of 12,800 every 250 ms.
constexpr absl::Duration kPublishSettle = absl::Milliseconds(5);
constexpr absl::Duration kPublishSettlePerNode = absl::Microseconds(40);
constexpr absl::Duration kPublishSettleMax = absl::Milliseconds(250);
constexpr absl::Duration kReportInterval = absl::Seconds(5);

// The kinds whose first list must be complete before anybody may act.
constexpr std::string_view kKinds[] = {"nodes",  "pods",         "namespaces",
                                       "queues", "trainingjobs", "priorityclasses"};

std::vector<operators::LevelSource> LevelsOf(const Configuration& configuration) {
  std::vector<operators::LevelSource> levels;
  for (const LevelConfiguration& level : configuration.levels) {
    levels.push_back({.name = level.name,
                      .label = level.label,
                      .kind = level.kind,
                      .slice_nodes = level.slice_nodes});
  }
  return levels;
}

topology::KeeperOptions KeeperOptionsOf(const TopologyConfiguration& configuration) {
  topology::KeeperOptions options;
  options.report_ttl = configuration.agent_ttl;
  options.fabric_ttl = configuration.fabric_ttl;
  options.moves_max = configuration.mass_change_percent / 100.0;
  options.hold = configuration.mass_change_hold;
  options.nvlink_gpus_max = static_cast<uint32_t>(configuration.nvlink_domain_gpus_max);
  return options;
}

std::vector<std::string> LevelNames(const Configuration& configuration) {
  std::vector<std::string> names;
  for (const LevelConfiguration& level : configuration.levels) {
    names.push_back(level.name);
  }
  return names;
}

operators::PlannerSettings PlannerSettingsOf(const Configuration& configuration) {
  operators::PlannerSettings settings;
  for (const LevelConfiguration& level : configuration.levels) {
    settings.links.push_back({level.gigabytes_per_second, level.latency_us});
  }
  for (const GpuProductConfiguration& each : configuration.gpu_products) {
    settings.gpus_by_product[each.product] = each.gpu;
  }
  return settings;
}

absl::StatusOr<operators::TrainingJob> DecodeTrainingJob(const kube::RawObject& object) {
  return operators::ParseTrainingJob(object.bytes);
}

absl::StatusOr<operators::Queue> DecodeQueue(const kube::RawObject& object) {
  return operators::ParseQueue(object.bytes);
}

}  // namespace

ControlPlane::ControlPlane(Dependencies dependencies, const Configuration& configuration,
                           Identity identity)
    : dependencies_(dependencies),
      identity_(std::move(identity)),
      job_options_{.field_manager = std::string(kProgram),
                   .bind_deadline = configuration.bind_deadline,
                   .reports = &reports_,
                   .in_flight = &single_pods_,
                   .planner = dependencies_.planner},
      ports_(configuration.ports),
      taint_nodes_(configuration.taint_nodes),
      gpu_resources_(configuration.resource_names),
      label_nodes_(configuration.topology.label_nodes),
      level_names_(LevelNames(configuration)),
      single_pods_(dependencies_.clock),
      agents_(AgentDependencies(), configuration.resource_names),
      feed_({.levels = LevelsOf(configuration),
             .resource_names = configuration.resource_names,
             .node_selector = NodeSelectorOf(configuration),
             .topology = KeeperOptionsOf(configuration.topology)},
            view_cell_),
      job_metrics_(dependencies_.registry),
      topology_metrics_(dependencies_.registry),
      missing_agents_(
          dependencies_.clock, dependencies_.registry,
          {.enabled = configuration.agents.enabled, .selector = AgentNodesOf(configuration)}),
      watch_metrics_(dependencies_.registry),
      leading_gauge_(
          dependencies_.registry
              .AddGauge("asterism_leader_election_master_status", "1 while this process leads.")
              .With({})),
      clock_watch_(dependencies_.clock, dependencies_.registry),
      open_nodes_gauge_(
          dependencies_.registry
              .AddGauge("asterism_open_nodes",
                        "GPU nodes that are to be closed to other schedulers, and are not yet.")
              .With({})),
      log_lines_lost_(dependencies_.registry
                          .AddCounter("asterism_log_lines_lost_total",
                                      "Log lines that could not be written, on a full disk.")
                          .With({})),
      rebuild_seconds_(dependencies_.registry.AddHistogram(
          "asterism_rebuild_seconds", "From winning the Lease to the first decision.")),
      missing_(std::begin(kKinds), std::end(kKinds)),
      publish_timer_(dependencies_.executor),
      metrics_timer_(dependencies_.executor) {
  dependencies_.registry
      .AddGauge("asterism_build_info", "1; the version is in the label.", {"version"})
      .With({ASTERISM_VERSION})
      .Set(1);
  PublishTopologyState();
  fabric_files_ = std::make_unique<FabricFiles>(
      dependencies_.executor,
      dependencies_.work == nullptr ? dependencies_.executor : *dependencies_.work,
      configuration.topology.fabric_files,
      [this](const std::string& name, topology::Fabric fabric) {
        feed_.PutFabric(name, std::move(fabric), dependencies_.clock.Now());
        PublishSoon();
      });
  MakeInformers();
  MakeEnvironment(configuration);
  MakeExtender();
  events_ = std::make_unique<kube::EventRecorder>(
      dependencies_.clock, dependencies_.executor, dependencies_.client, dependencies_.registry,
      kube::EventRecorderOptions{.reporting_controller = std::string(kProgram),
                                 .reporting_instance = identity_.name});
  MakeElector(configuration.leader_election);
}

ControlPlane::~ControlPlane() = default;

AgentRegistry::Dependencies ControlPlane::AgentDependencies() {
  return {
      .clock = dependencies_.clock,
      .registry = dependencies_.registry,
      .reports = reports_,
      .on_report =
          [this](std::string_view pod_uid) {
            if (jobs_ != nullptr) {
              jobs_->OnWorkerReport(pod_uid);
            }
          },
      .tell = [this](const NodeNote& note) { TellAboutNode(note); },
      .on_measured =
          [this](topology::NodeReport report) {
            feed_.PutReport(std::move(report), dependencies_.clock.Now());
            PublishSoon();
          },
      .on_heard = [this](const std::string& node) { feed_.Hear(node, dependencies_.clock.Now()); },
      .on_islands =
          [this](const std::string& node, scheduler::GpuIslands islands) {
            feed_.PutGpuIslands(node, std::move(islands));
          },
      .has_ended =
          [this](std::string_view node, std::string_view pod) {
            const auto known = pods_->store().Find(pod);
            return known != nullptr && known->Terminal() && known->node_name == node;
          }};
}

void ControlPlane::MakeEnvironment(const Configuration& configuration) {
  environment_ = std::make_unique<operators::AdmissionEnvironment>(
      operators::AdmissionEnvironment{.queues = queues_->store(),
                                      .namespaces = namespaces_->store(),
                                      .priority_classes = priority_classes_->store(),
                                      .feed = feed_,
                                      .level_names = LevelNames(configuration),
                                      .resource_names = configuration.resource_names,
                                      .pods = {.scheduler_name = configuration.scheduler_name,
                                               .launcher_image = configuration.launcher_image},
                                      .commit = configuration.commit,
                                      .planner = PlannerSettingsOf(configuration)});
  MakeCalibrationKeeper();
}

void ControlPlane::MakeExtender() {
  extender_ = std::make_unique<scheduler::Extender>(
      dependencies_.clock, view_cell_,
      [this] {
        return leading()      ? scheduler::ExtenderReadiness::kReady
               : holds_lease_ ? scheduler::ExtenderReadiness::kRebuilding
                              : scheduler::ExtenderReadiness::kStandby;
      },
      dependencies_.registry,
      scheduler::ExtenderOptions{.gpu_resources = gpu_resources_, .in_flight = &single_pods_});
}

void ControlPlane::MakeElector(const LeaderElectionConfiguration& times) {
  elector_ = std::make_unique<kube::LeaderElector>(
      dependencies_.clock, dependencies_.executor, dependencies_.rng.Fork("lease"),
      dependencies_.client,
      kube::LeaderElectorOptions{.namespace_name = identity_.namespace_name,
                                 .name = std::string(kLease),
                                 .identity = identity_.name,
                                 .lease_duration = times.lease_duration,
                                 .renew_deadline = times.renew_deadline,
                                 .retry_period = times.retry_period},
      kube::LeaderEvents{
          .on_started = [this] { OnLeading(); },
          .on_stopped = [this] { OnLeadershipLost(); },
          .on_new_leader = [this](const std::string& leader) { OnNewLeader(leader); }});
}

void ControlPlane::MakeInformers() {
  const auto make = [this]<typename T>(InformerPtr<T>& informer, const kube::ResourceType& type,
                                       kube::Decoder<T> decoder, auto on_change) {
    informer = std::make_unique<kube::Informer<T>>(
        dependencies_.source, dependencies_.executor, dependencies_.clock,
        dependencies_.rng.Fork(type.plural), type, kube::WatchOptions{}, std::move(decoder),
        kube::InformerEvents<T>{.on_change = std::move(on_change),
                                .on_synced = [this, plural = type.plural] { OnSynced(plural); },
                                .on_list = [this, plural = type.plural] { OnListed(plural); }});
  };
  make(nodes_, kube::kNodes, kube::Decoder<kube::Node>(kube::DecodeNode),
       [this](const kube::Change<kube::Node>& change) {
         feed_.OnNode(change);
         if (change.after == nullptr) {
           agents_.ForgetNode(change.before->meta.name);
         }
         PublishSoon();
         if (node_closer_ != nullptr) {
           node_closer_->OnNode(change);
         }
         if (domain_labels_ != nullptr) {
           domain_labels_->OnNode(change);
         }
         if (jobs_ != nullptr) {
           jobs_->OnNode(change);
           queue_controller_->OnChange();  // what they guarantee together depends on the nodes
         }
       });
  make(pods_, kube::kPods, kube::Decoder<kube::Pod>(kube::DecodePod),
       [this](const kube::Change<kube::Pod>& change) { OnPod(change); });
  make(jobs_informer_, operators::kTrainingJobs,
       kube::Decoder<operators::TrainingJob>(DecodeTrainingJob),
       [this](const kube::Change<operators::TrainingJob>& change) {
         if (jobs_ != nullptr) {
           jobs_->OnJob(change);
           queue_controller_->OnChange();
         }
       });
  make(queues_, operators::kQueues, kube::Decoder<operators::Queue>(DecodeQueue),
       [this](const kube::Change<operators::Queue>&) { OnEnvironment(); });
  make(namespaces_, kube::kNamespaces, kube::Decoder<kube::Namespace>(kube::DecodeNamespace),
       [this](const kube::Change<kube::Namespace>&) { OnEnvironment(); });
  make(priority_classes_, kube::kPriorityClasses,
       kube::Decoder<kube::PriorityClass>(kube::DecodePriorityClass),
       [this](const kube::Change<kube::PriorityClass>&) { OnEnvironment(); });
}

void ControlPlane::OnPod(const kube::Change<kube::Pod>& change) {
  feed_.OnPod(change);
  const kube::Pod& pod = change.after != nullptr ? *change.after : *change.before;
  if (change.after == nullptr || !pod.node_name.empty() || pod.Terminal()) {
    single_pods_.Settled(pod.meta.uid);
  }
  if (change.after != nullptr && pod.Terminal()) {
    agents_.ForgetPod(pod.node_name, pod.meta.Key());
  }
  PublishSoon();
  if (jobs_ != nullptr) {
    jobs_->OnPod(change);
    queue_controller_->OnChange();
  }
}

// The leader before us may have let them pass.
void ControlPlane::NoteUnboundSinglePods() {
  pods_->store().ForEach([this](const kube::Shared<kube::Pod>& pod) {
    const bool asks_for_gpus =
        std::any_of(pod->requests.begin(), pod->requests.end(), [this](const auto& each) {
          return std::find(gpu_resources_.begin(), gpu_resources_.end(), each.name) !=
                 gpu_resources_.end();
        });
    operators::GangPodMark mark;
    if (asks_for_gpus && pod->node_name.empty() && !pod->Terminal() && !pod->gated &&
        pod->scheduler_name == environment_->pods.scheduler_name &&
        !operators::ReadGangPodMark(*pod, mark)) {
      single_pods_.Passed(pod->meta.uid, pod->meta.Key());
    }
  });
}

void ControlPlane::MakeCalibrationKeeper() {
  calibrations_ = std::make_unique<CalibrationKeeper>(
      CalibrationKeeper::Dependencies{
          .clock = dependencies_.clock,
          .executor = dependencies_.executor,
          .rng = dependencies_.rng.Fork(kCalibrationMap),
          .client = dependencies_.client,
          .source = dependencies_.source,
          .may_write = [this] { return MayWrite(); },
          .on_change =
              [this](std::shared_ptr<const planner::CalibrationSet> kept) {
                environment_->planner.kept = std::move(kept);
                OnEnvironment();
              },
          .on_known = [this] { RebuildWhenReady(); }},
      identity_.namespace_name);
}

// A burst of events is one new view; a placement does not wait for it, it publishes by itself.
void ControlPlane::PublishSoon() {
  if (!publish_timer_.pending()) {
    const auto nodes = static_cast<int64_t>(feed_.gpu_node_count());
    publish_timer_.Start(
        std::min(kPublishSettle + kPublishSettlePerNode * nodes, kPublishSettleMax),
        [this] { PublishModel(); });
  }
}

void ControlPlane::PublishModel() {
  const auto before = feed_.topology().snapshot()->cluster;
  const base::SteadyTime begin = dependencies_.clock.SteadyNow();
  feed_.Refresh();
  if (feed_.topology().snapshot()->cluster != before) {
    topology_metrics_.rebuild().Observe(dependencies_.clock.SteadyNow() - begin);
  }
  feed_.Publish();
  const std::shared_ptr<const TopologyState> shown = topology_cell_.Load();
  if (shown->snapshot == feed_.topology().snapshot()) {
    return;
  }
  PublishTopologyState();
  const bool moved = seen_cluster_ != feed_.topology().snapshot()->cluster;
  const bool fitness = seen_unhealthy_ != feed_.unhealthy_count();
  seen_cluster_ = feed_.topology().snapshot()->cluster;
  seen_unhealthy_ = feed_.unhealthy_count();
  if (moved && domain_labels_ != nullptr) {
    domain_labels_->LookAtAll();
  }
  if ((moved || fitness) && jobs_ != nullptr) {
    jobs_->OnEnvironmentChange();
    queue_controller_->OnChange();
  }
}

void ControlPlane::PublishTopologyState() {
  auto state = std::make_shared<TopologyState>();
  state->snapshot = feed_.topology().snapshot();
  state->time = dependencies_.clock.Now();
  state->sources = feed_.topology().Sources(state->time);
  state->held_change = feed_.topology().HeldChange();
  topology_cell_.Publish(std::move(state));
}

// What becomes stale does so without an event.
void ControlPlane::LookAtTopology() {
  feed_.Tick(dependencies_.clock.Now());
  PublishModel();
  PublishTopologyState();
  const std::shared_ptr<const TopologyState> state = topology_cell_.Load();
  topology_metrics_.Update(*state, leading_);
  if (cluster_topology_ != nullptr) {
    cluster_topology_->Look(*state, *feed_.ledger().View());
  }
}

void ControlPlane::StartTopologyWriters() {
  const auto may_write = [this] { return MayWrite(); };
  if (label_nodes_ && level_names_.size() > 2) {
    domain_labels_ = std::make_unique<DomainLabels>(
        dependencies_.executor, dependencies_.client, feed_,
        std::vector<std::string>(level_names_.begin() + 1, level_names_.end() - 1), may_write);
    domain_labels_->Start(nodes_->store());
  }
  cluster_topology_ = std::make_unique<ClusterTopologyWriter>(
      ClusterTopologyWriter::Dependencies{
          .clock = dependencies_.clock,
          .client = dependencies_.client,
          .has_node = [this](std::string_view node) { return feed_.HasNode(node); },
          .tell = [this](const NodeNote& note) { TellAboutNode(note); },
          .confirm =
              [this] {
                feed_.ConfirmTopology();
                PublishSoon();
              },
          .may_write = may_write},
      gpu_resources_);
  cluster_topology_->Start();
}

void ControlPlane::OnEnvironment() {
  if (jobs_ != nullptr) {
    queue_controller_->RefreshQuota();
    queue_controller_->OnChange();
    jobs_->OnEnvironmentChange();
  }
}

void ControlPlane::Start() {
  nodes_->Start();
  pods_->Start();
  namespaces_->Start();
  priority_classes_->Start();
  queues_->Start();
  jobs_informer_->Start();
  calibrations_->Start();
  elector_->Start();
  fabric_files_->Start();
  ReportMetrics();
}

// What is worked out from time to time rather than counted.
void ControlPlane::ReportMetrics() {
  const auto watch = [this](const auto& informer, const kube::ResourceType& type) {
    watch_metrics_.Report(std::string(type.plural), informer->stats(), informer->SilentFor());
  };
  watch(nodes_, kube::kNodes);
  watch(pods_, kube::kPods);
  watch(namespaces_, kube::kNamespaces);
  watch(priority_classes_, kube::kPriorityClasses);
  watch(queues_, operators::kQueues);
  watch(jobs_informer_, operators::kTrainingJobs);
  watch(&calibrations_->informer(), operators::kCalibrationMaps);
  if (jobs_ != nullptr) {
    jobs_->ReportQueue();
  }
  open_nodes_gauge_.Set(node_closer_ == nullptr ? 0 : static_cast<double>(node_closer_->open()));
  LookAtTopology();
  missing_agents_.Look(nodes_->store(), feed_, agents_, leading_);
  clock_watch_.Look();
  log_lines_lost_.Add(base::TakeLostLogLines());
  metrics_timer_.Start(kReportInterval, [this] { ReportMetrics(); });
}

void ControlPlane::Stop(absl::AnyInvocable<void()> done) {
  // Whichever comes first, and only once: the released Lease or the end of our patience.
  auto finish = std::make_shared<absl::AnyInvocable<void()>>(std::move(done));
  const auto once = [finish] {
    if (*finish != nullptr) {
      std::exchange(*finish, nullptr)();
    }
  };
  elector_->Stop(once);
  dependencies_.executor.PostAfter(absl::Seconds(2), once);
}

void ControlPlane::Reload(const Configuration& configuration) {
  job_options_.bind_deadline = configuration.bind_deadline;
  if (jobs_ != nullptr) {
    jobs_->set_bind_deadline(configuration.bind_deadline);
  }
}

void ControlPlane::OnSynced(std::string_view kind) {
  {
    absl::MutexLock lock(&mutex_);
    std::erase(missing_, kind);
  }
  base::LogInfo("synced", {{"kind", std::string(kind)}});
}

void ControlPlane::OnListed(std::string_view kind) {
  awaited_lists_.erase(std::string(kind));
  RebuildWhenReady();
}

void ControlPlane::RebuildWhenReady() {
  if (holds_lease_ && jobs_ == nullptr && awaited_lists_.empty() && AllSynced() &&
      calibrations_->known()) {
    Rebuild();
  }
}

void ControlPlane::OnNewLeader(const std::string& leader) {
  {
    absl::MutexLock lock(&mutex_);
    leader_ = leader;
  }
  base::LogInfo("leader", {{"identity", leader}});
}

std::string ControlPlane::leader() const {
  absl::MutexLock lock(&mutex_);
  // Our own name stays until another's is read: who has just lost the Lease knows of nobody.
  return leader_ == identity_.name && !MayWrite() ? "" : leader_;
}

bool ControlPlane::MayWrite() const {
  return elector_->IsLeader();
}

bool ControlPlane::AllSynced() const {
  absl::MutexLock lock(&mutex_);
  return missing_.empty();
}

std::vector<std::string> ControlPlane::Missing() const {
  std::vector<std::string> missing;
  absl::MutexLock lock(&mutex_);
  for (const std::string& kind : missing_) {
    missing.push_back(kind + ": first list not complete");
  }
  return missing;
}

void ControlPlane::OnLeading() {
  holds_lease_ = true;
  lease_won_ = dependencies_.clock.SteadyNow();
  leading_gauge_.Set(1);
  base::LogInfo("lease_won", {{"identity", identity_.name}});
  // A watch may lag behind what the leader before us has written, or we ourselves in an earlier
  // reign: a rebuild from it would promise the same room twice. So both kinds are read anew.
  awaited_lists_ = {std::string(operators::kTrainingJobs.plural), std::string(kube::kPods.plural)};
  jobs_informer_->Resync();
  pods_->Resync();
}

void ControlPlane::Rebuild() {
  feed_.Refresh();
  NoteUnboundSinglePods();
  const auto may_write = [this] { return MayWrite(); };
  jobs_ = std::make_unique<operators::JobController>(
      dependencies_.clock, dependencies_.executor, dependencies_.client, feed_, *environment_,
      job_metrics_,
      [this](const operators::TrainingJob& job, const operators::EventNote& note) {
        Record(job, note);
      },
      may_write, job_options_);
  queue_controller_ = std::make_unique<operators::QueueController>(
      dependencies_.clock, dependencies_.executor, dependencies_.client, feed_, jobs_->dispatcher(),
      queues_->store(), may_write);
  if (taint_nodes_) {
    node_closer_ = std::make_unique<operators::NodeCloser>(dependencies_.executor,
                                                           dependencies_.client, feed_, may_write);
    node_closer_->Start(nodes_->store());
  }
  queue_controller_->RefreshQuota();
  jobs_->Start(jobs_informer_->store(), pods_->store());
  queue_controller_->OnChange();
  leading_ = true;
  PublishEndpoint();
  StartTopologyWriters();
  const absl::Duration took = dependencies_.clock.SteadyNow() - lease_won_;
  rebuild_seconds_.With({}).Observe(took);
  base::LogInfo("leading", {{"nodes", static_cast<uint64_t>(nodes_->store().size())},
                            {"pods", static_cast<uint64_t>(pods_->store().size())},
                            {"jobs", static_cast<uint64_t>(jobs_informer_->store().size())},
                            {"rebuild_ms", absl::ToInt64Milliseconds(took)}});
}

void ControlPlane::OnLeadershipLost() {
  leading_ = false;
  holds_lease_ = false;
  leading_gauge_.Set(0);
  endpoint_.reset();
  node_closer_.reset();
  domain_labels_.reset();
  cluster_topology_.reset();
  queue_controller_.reset();
  jobs_.reset();
  agents_.Clear();
  base::LogWarning("lease_lost", {{"identity", identity_.name}});
}

// The Service of the extender has no selector: kube-scheduler must reach the leader alone.
void ControlPlane::PublishEndpoint() {
  if (identity_.pod_ip.empty()) {
    return;
  }
  endpoint_ = std::make_unique<EndpointPublisher>(
      dependencies_.executor, dependencies_.client, [this] { return MayWrite(); },
      EndpointPublisherOptions{.endpoint = {.namespace_name = identity_.namespace_name,
                                            .pod_ip = identity_.pod_ip,
                                            .pod_name = identity_.pod_name,
                                            .port = ports_.https,
                                            .diagnosis_port = ports_.metrics,
                                            .grpc_port = ports_.grpc},
                               .field_manager = std::string(kProgram)});
  endpoint_->Start();
}

void ControlPlane::TellAboutNode(const NodeNote& note) {
  const auto node = nodes_->store().Find(note.node);
  if (node == nullptr) {
    return;
  }
  events_->Record(
      {.regarding = {.api_version = "v1", .kind = "Node", .name = note.node, .uid = node->meta.uid},
       .warning = note.warning,
       .reason = note.reason,
       .action = note.reason,
       .note = note.message});
}

void ControlPlane::Record(const operators::TrainingJob& job, const operators::EventNote& note) {
  events_->Record({.regarding = {.api_version = "asterism.dev/v1alpha1",
                                 .kind = std::string(operators::kTrainingJobs.kind),
                                 .namespace_name = job.meta.namespace_name,
                                 .name = job.meta.name,
                                 .uid = job.meta.uid},
                   .warning = note.warning,
                   .reason = note.reason,
                   .action = note.reason,
                   .note = note.message});
}

}  // namespace asterism::controller
