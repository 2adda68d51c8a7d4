#include "operator/admission.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "kube/decoder.h"
#include "nlohmann/json.hpp"
#include "operator/conditions.h"
#include "operator/ignored_fields.h"
#include "operator/launch_environment.h"
#include "operator/spare_count.h"
#include "operator/template_fit.h"

namespace asterism::operators {
namespace {

// Of etcd's 1.5 MiB; the status of a gang of 12,800 pods on scattered nodes takes about 0.4.
constexpr size_t kJobBytesMax = 1'000'000;

// What the author of a job prefers comes before what its plan would save.
constexpr int64_t kStatedByTheAuthor = std::numeric_limits<int64_t>::max();

class Admitter {
 public:
  Admitter(const TrainingJob& job, const TrainingJobStatus& status, const AdmissionFacts& facts)
      : job_(job), status_(status), facts_(facts) {}

  Admission Run() {
    // Each step may refuse; the shape is known as early as possible, for the status.
    const bool asked = CheckSize() && CheckQueue() && FindShape() && CheckPriority() &&
                       CheckResource() && ReadRules();
    // The pods of a placed job are what they were promised to be, whatever became of its priority
    // class, of the levels, or of the configuration.
    if (asked || (Placed() && out_.shape.pods > 0)) {
      BuildPods();
    }
    return std::move(out_);
  }

 private:
  bool Refuse(std::string_view reason, std::string message) {
    out_.refusal = Refusal{std::string(reason), std::move(message)};
    return false;
  }

  // A placed job keeps its place whatever becomes of its queue and of the nodes' sizes.
  bool Placed() const { return !status_.placement.runs.empty() && status_.effective.pods > 0; }

  // Those that the gang is to have: a plan may leave some to others.
  int64_t Gpus() const { return facts_.plan == nullptr ? job_.spec.gpus : facts_.plan->gpus; }

  // A rule about the whole gang, whatever its size is.
  int64_t BlockGpus(const JobLevelRule& rule) const {
    return rule.block_gpus > 0 && rule.block_gpus != job_.spec.gpus ? rule.block_gpus : Gpus();
  }

  bool CheckSize() {
    if (Placed() || job_.bytes <= kJobBytesMax) {
      return true;
    }
    return Refuse(wait_reason::kInvalidSpec,
                  fmt::format("the object has {} bytes; up to {} leave room for its status, which "
                              "says where it runs: shorten args, env or template, or mount a "
                              "ConfigMap",
                              job_.bytes, kJobBytesMax));
  }

  bool CheckQueue() {
    if (Placed()) {
      return true;
    }
    if (facts_.queue == nullptr) {
      return Refuse(wait_reason::kNotAllowed,
                    fmt::format("spec.queue: there is no Queue \"{}\": create it, or name one of "
                                "`kubectl get aq`",
                                job_.spec.queue));
    }
    static const kube::StringPairs& no_labels = *new kube::StringPairs();
    const absl::Status allowed = MayUse(
        *facts_.queue, job_, facts_.space == nullptr ? no_labels : facts_.space->meta.labels);
    if (!allowed.ok()) {
      return Refuse(wait_reason::kNotAllowed, std::string(allowed.message()));
    }
    return true;
  }

  bool FindShape() {
    TrainingJobSpec spec = job_.spec;
    NodeGpus node_gpus = facts_.node_gpus;
    spec.gpus = Gpus();
    if (spec.min_gpus) {
      spec.min_gpus = std::min(*spec.min_gpus, spec.gpus);
    }
    for (JobLevelRule& rule : spec.levels) {
      rule.block_gpus = BlockGpus(rule);
    }
    if (Placed()) {
      node_gpus.commonest = std::max(node_gpus.commonest, status_.effective.gpus_per_pod);
      node_gpus.largest = std::max(node_gpus.largest, status_.effective.gpus_per_pod);
      spec.gpus = status_.effective.pods * status_.effective.gpus_per_pod;
      spec.gpus_per_pod = status_.effective.gpus_per_pod;
      spec.processes_per_pod = status_.effective.processes_per_pod;
    }
    absl::StatusOr<GangShape> shape =
        ShapeOf(spec, node_gpus,
                facts_.queue == nullptr ? JobClass::kFinetuning : facts_.queue->spec.default_class);
    if (!shape.ok()) {
      return Refuse(wait_reason::kInvalidSpec, std::string(shape.status().message()));
    }
    out_.shape = *shape;
    const SpareWish& spares = job_.spec.spares;
    out_.shape.spares =
        spares.automatic
            ? AutoSpares(
                  {.pods = shape->pods,
                   .pods_per_node = std::max<int64_t>(
                       facts_.node_gpus.commonest / std::max<int64_t>(shape->gpus_per_pod, 1), 1)})
            : spares.count;
    return true;
  }

  bool CheckPriority() {
    if (!facts_.priority) {
      return Refuse(
          wait_reason::kInvalidSpec,
          fmt::format("spec.priorityClassName: there is no PriorityClass \"{}\": create it, "
                      "or leave the field out",
                      job_.spec.priority_class_name));
    }
    out_.priority = *facts_.priority;
    return true;
  }

  bool CheckResource() {
    if (const auto slot = facts_.resources.Find(job_.spec.resource_name)) {
      out_.request.gpu_slot = *slot;
    }
    const auto& names = facts_.resource_names;
    if (std::find(names.begin(), names.end(), job_.spec.resource_name) == names.end()) {
      return Refuse(wait_reason::kInvalidSpec,
                    fmt::format("spec.resourceName: \"{}\" is not a GPU resource of this "
                                "installation ({}): add it to resourceNames of the configuration",
                                job_.spec.resource_name, absl::StrJoin(names, ", ")));
    }
    return true;
  }

  bool ReadRules() {
    const std::vector<std::string>& levels = facts_.level_names;
    for (size_t i = 0; i < job_.spec.levels.size(); ++i) {
      const JobLevelRule& rule = job_.spec.levels[i];
      const auto level = std::find(levels.begin(), levels.end(), rule.level);
      if (level == levels.end()) {
        return Refuse(wait_reason::kInvalidSpec,
                      fmt::format("spec.placement.levels[{}].level: \"{}\" is not a level of this "
                                  "cluster ({})",
                                  i, rule.level, absl::StrJoin(levels, ", ")));
      }
      const int64_t block_gpus = BlockGpus(rule);
      if (block_gpus % out_.shape.gpus_per_pod != 0) {
        return Refuse(wait_reason::kInvalidSpec,
                      fmt::format("spec.placement.levels[{}].blockGpus: {} is not a multiple of "
                                  "gpusPerPod ({})",
                                  i, block_gpus, out_.shape.gpus_per_pod));
      }
      out_.request.rules.push_back({.level = static_cast<size_t>(level - levels.begin()),
                                    .block_pods = block_gpus / out_.shape.gpus_per_pod,
                                    .required = rule.required,
                                    .bytes_per_step = kStatedByTheAuthor});
    }
    return true;
  }

  bool BuildPods() {
    PodSettings settings = facts_.pods;
    settings.plan = facts_.plan;
    absl::StatusOr<PodBuilder> builder = PodBuilder::Make(job_, out_.shape, settings);
    if (!builder.ok()) {
      return Refuse(wait_reason::kInvalidTemplate, std::string(builder.status().message()));
    }
    out_.builder = *std::move(builder);
    const std::string body = out_.builder->PodBody({.first_rank = 0, .node = "", .epoch = 0});
    const absl::StatusOr<PodNeeds> needs = ReadPodNeeds(body);
    if (!needs.ok()) {
      return Refuse(wait_reason::kInvalidTemplate,
                    fmt::format("spec.template: {}", base::ToStd(needs.status().message())));
    }
    FillRequest();
    ApplyPodNeeds(*needs, facts_.resources, out_);
    out_.command_warning = CommandWarning(job_, out_.shape);
    out_.ignored_fields =
        IgnoredFields(*job_.object, job_.spec.launcher_auto && !facts_.pods.launcher_image.empty());
    NoteOtherSize();
    return true;
  }

  // A gang that runs keeps its size: its ranks have counted each other.
  void NoteOtherSize() {
    const int64_t held = status_.effective.pods * status_.effective.gpus_per_pod;
    if (!Placed() || Gpus() == held) {
      return;
    }
    out_.ignored_fields +=
        fmt::format("{}spec.gpus: {} wait until the job is suspended and resumed; it runs with {}",
                    out_.ignored_fields.empty() ? "" : "; ", job_.spec.gpus, held);
  }

  void FillRequest() {
    scheduler::PlacementRequest& request = out_.request;
    request.gang_uid = job_.meta.uid;
    request.pods = out_.shape.pods;
    request.spares = out_.shape.spares;
    // A number is a promise; Auto is a wish that makes no gang wait.
    request.spares_required = !job_.spec.spares.automatic;
    request.products = job_.spec.gpu_products;
    if (facts_.plan != nullptr) {
      request.products = {facts_.plan->gpu_product};
      PreferPlanBlocks(*facts_.plan);
    }
    request.policy = job_.spec.placement_policy == "Pack"     ? scheduler::PlacementPolicy::kPack
                     : job_.spec.placement_policy == "Spread" ? scheduler::PlacementPolicy::kSpread
                                                              : scheduler::PlacementPolicy::kAuto;
    out_.commit = facts_.queue != nullptr && facts_.queue->spec.commit ? *facts_.queue->spec.commit
                                                                       : facts_.commit;
  }

  // Where the author of the job says nothing of a level, the groups of the plan stay together.
  void PreferPlanBlocks(const PlanStatus& plan) {
    for (const PlanBlock& block : plan.blocks) {
      const auto found =
          std::find(facts_.level_names.begin(), facts_.level_names.end(), block.level);
      const auto level = static_cast<size_t>(found - facts_.level_names.begin());
      std::vector<scheduler::LevelRule>& rules = out_.request.rules;
      const bool stated = std::any_of(rules.begin(), rules.end(),
                                      [level](const auto& rule) { return rule.level == level; });
      if (found != facts_.level_names.end() && !stated &&
          block.gpus % out_.shape.gpus_per_pod == 0) {
        rules.push_back({.level = level,
                         .block_pods = block.gpus / out_.shape.gpus_per_pod,
                         .required = false,
                         .bytes_per_step = block.bytes_per_step});
      }
    }
  }

  const TrainingJob& job_;
  const TrainingJobStatus& status_;
  const AdmissionFacts& facts_;
  Admission out_;
};

}  // namespace

void ApplyPodNeeds(const PodNeeds& needs, const scheduler::ResourceTable& resources,
                   Admission& admission) {
  scheduler::PlacementRequest& request = admission.request;
  for (const kube::ResourceAmount& amount : needs.requests) {
    if (const auto slot = resources.Find(amount.name)) {
      request.request[*slot] = std::max<int64_t>(0, amount.amount);
    }
  }
  request.request[scheduler::kPodsSlot] = 1;
  admission.fit = needs.fit;
  admission.not_direct.clear();
  if (admission.commit != CommitMode::kDirect) {
    return;
  }
  admission.not_direct = needs.not_direct;
  for (const kube::ResourceAmount& amount : needs.requests) {
    if (admission.not_direct.empty() && amount.amount > 0 && !resources.Find(amount.name)) {
      admission.not_direct = fmt::format("no GPU node offers \"{}\"", amount.name);
    }
  }
}

Admission Admit(const TrainingJob& job, const TrainingJobStatus& status,
                const AdmissionFacts& facts) {
  return Admitter(job, status, facts).Run();
}

AdmissionFacts FactsFor(const TrainingJob& job, const AdmissionEnvironment& environment) {
  AdmissionFacts facts{.queue = environment.queues.Find(job.spec.queue),
                       .space = environment.namespaces.Find(job.meta.namespace_name),
                       .node_gpus = environment.feed.GpusOfNode(job.spec.resource_name),
                       .resources = environment.feed.resources(),
                       .level_names = environment.level_names,
                       .resource_names = environment.resource_names,
                       .pods = environment.pods,
                       .commit = environment.commit};
  if (job.spec.priority_class_name.empty()) {
    facts.priority = 0;
    environment.priority_classes.ForEach([&](const auto& priority_class) {
      facts.priority = priority_class->global_default ? priority_class->value : *facts.priority;
    });
  } else if (const auto found = environment.priority_classes.Find(job.spec.priority_class_name)) {
    facts.priority = found->value;
  }
  return facts;
}

}  // namespace asterism::operators
