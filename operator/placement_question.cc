#include "operator/placement_question.h"

#include <utility>
#include <variant>

#include "base/status_macros.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "operator/conditions.h"
#include "operator/gang_decision.h"
#include "operator/job_plan.h"
#include "operator/job_reconciler.h"

namespace asterism::operators {
namespace {

// No object has it, so nothing that is held counts as the job's own.
constexpr std::string_view kUidOfNobody = "00000000-0000-0000-0000-000000000000";

// What no room and no time cures.
bool RefusedForGood(std::string_view reason) {
  return reason == wait_reason::kInvalidSpec || reason == wait_reason::kInvalidTemplate ||
         reason == wait_reason::kNotAllowed;
}

void FillRefusal(const Refusal& refusal, bool for_good, PlacementAnswer& answer) {
  answer.decision = for_good ? PlacementDecision::kNever : PlacementDecision::kNotNow;
  answer.no_place = {refusal.reason, refusal.message, "", std::nullopt};
}

// As JobController::RefreshPlan, for a job that has no plan yet.
JobPlanAnswer PlanOfAsked(const TrainingJob& job, const PlanWish& wish, const GangShape& shape,
                          const AskedFacts& facts) {
  if (!wish.error.empty()) {
    return {.plan = {}, .reason = std::string(plan_reason::kInvalid), .message = wish.error};
  }
  JobPlanQuestion question =
      QuestionOf(job, wish, facts.products, shape, facts.admission.level_names, facts.planner);
  if (ModelConfigMapOf(wish)) {
    if (!facts.config_json.ok()) {
      return {.plan = {},
              .reason = std::string(plan_reason::kUnreadable),
              .message = std::string(base::ToStd(facts.config_json.status().message()))};
    }
    SetModelConfig(*facts.config_json, question);
  }
  return AnswerJobPlan(question);
}

// Admits once more with the plan, where the job runs by one.
void AdmitWithPlan(const TrainingJob& job, AskedFacts& facts, AskedJob& asked) {
  if (asked.admission.refusal || !job.spec.has_model) {
    return;
  }
  const PlanWish wish = WishOf(job);
  if (!wish.wanted() || wish.mode != PlanMode::kApply) {
    return;
  }
  const JobPlanAnswer answer = PlanOfAsked(job, wish, asked.admission.shape, facts);
  if (answer.plan.gpus == 0) {
    asked.admission.refusal = Refusal{std::string(wait_reason::kPlanFailed), answer.message};
    asked.for_good = NoPlanForGood(answer.reason);
    return;
  }
  facts.admission.plan = &answer.plan;
  asked.admission = Admit(job, job.status, facts.admission);
  facts.admission.plan = nullptr;
  asked.for_good = asked.admission.refusal && RefusedForGood(asked.admission.refusal->reason);
}

PlacementStatus PlacementOf(const scheduler::Placed& placed, int64_t ranks_per_pod,
                            const topology::Cluster& cluster) {
  std::vector<scheduler::RankBlock> blocks;
  blocks.reserve(placed.nodes.size());
  for (size_t i = 0; i < placed.nodes.size(); ++i) {
    blocks.push_back({.first_rank = static_cast<int64_t>(i) * ranks_per_pod,
                      .node = cluster.node_name(placed.nodes[i]),
                      .epoch = 1});
  }
  std::vector<scheduler::Spare> spares;
  spares.reserve(placed.spares.size());
  for (const topology::NodeId node : placed.spares) {
    spares.push_back({.node = cluster.node_name(node), .epoch = 1});
  }
  return {.epoch = 1,
          .levels = LevelsOf(placed, cluster),
          .runs = RunsOf(blocks, ranks_per_pod,
                         [&](std::string_view node) { return DomainOf(node, cluster); }),
          .spares = SpareRunsOf(spares)};
}

}  // namespace

std::optional<ModelConfigMap> ModelMapOfAsked(const TrainingJob& job) {
  return job.spec.has_model ? ModelConfigMapOf(WishOf(job)) : std::nullopt;
}

AskedFacts FactsForAsked(const TrainingJob& job, const AdmissionEnvironment& environment,
                         ProductLevelsCache& levels) {
  AskedFacts facts{.admission = FactsFor(job, environment)};
  if (job.spec.has_model) {
    environment.feed.Refresh();
    const size_t gpu_slot = facts.admission.resources.Find(job.spec.resource_name)
                                .value_or(scheduler::PlacementRequest{}.gpu_slot);
    facts.products = levels.Of(environment.feed.ledger(), gpu_slot);
    facts.planner = environment.planner;
  }
  return facts;
}

absl::StatusOr<AskedJob> AdmitAsked(TrainingJob job, AskedFacts facts) {
  job.meta.uid = kUidOfNobody;
  job.status = {};
  AskedJob asked{.name = job.meta.Key(), .queue = job.spec.queue};
  asked.admission = Admit(job, job.status, facts.admission);
  asked.for_good = asked.admission.refusal && RefusedForGood(asked.admission.refusal->reason);
  AdmitWithPlan(job, facts, asked);
  asked.admission.builder.reset();
  if (const size_t rules = RuleCount(asked.admission.fit); rules > kAskedRulesMax) {
    return absl::InvalidArgumentError(
        fmt::format("spec.template: has {} rules about nodes (selectors, affinities with their "
                    "values, tolerations): a job is asked about with at most {}",
                    rules, kAskedRulesMax));
  }
  return asked;
}

PlacementQuestion AskPlacement(AskedJob job, absl::Time now, std::span<const std::string> released,
                               const AdmissionEnvironment& environment,
                               const GangDispatcher& dispatcher, scheduler::LedgerImages& images) {
  ClusterFeed& feed = environment.feed;
  feed.Refresh();
  PlacementQuestion question;
  question.admission = std::move(job.admission);
  question.refused_for_good = job.for_good;
  const GangShape& shape = question.admission.shape;
  question.queued = {.uid = std::string(kUidOfNobody),
                     .name = std::move(job.name),
                     .queue = std::move(job.queue),
                     .priority = question.admission.priority,
                     .created = now,
                     .gpus = shape.gpus_held()};
  question.queue_position = dispatcher.queue().PositionFor(question.queued);
  if (question.admission.refusal) {
    return question;
  }
  question.request = question.admission.request;
  question.request.node_classes = feed.node_classes().Allowed(question.admission.fit);
  question.quota = dispatcher.QuotaNow(released);
  question.image = images.Of(feed.ledger());
  for (const std::string& uid : released) {
    const std::vector<scheduler::HeldAmount> held = scheduler::HeldBy(feed.ledger(), uid);
    question.released.insert(question.released.end(), held.begin(), held.end());
  }
  return question;
}

absl::StatusOr<PlacementAnswer> AnswerPlacement(const PlacementQuestion& question,
                                                std::span<const scheduler::ClusterChange> changes,
                                                const base::Clock& clock) {
  const Admission& admission = question.admission;
  PlacementAnswer answer;
  answer.queue_position = static_cast<int64_t>(question.queue_position);
  answer.command_warning = admission.command_warning;
  answer.ignored_fields = admission.ignored_fields;
  if (admission.refusal) {
    FillRefusal(*admission.refusal, question.refused_for_good, answer);
    return answer;
  }
  answer.effective = {.job_class = std::string(ToString(admission.shape.job_class)),
                      .gpus_per_pod = admission.shape.gpus_per_pod,
                      .processes_per_pod = admission.shape.processes_per_pod,
                      .pods = admission.shape.pods,
                      .spares = admission.shape.spares};
  answer.ledger_version = question.image->version;
  scheduler::LedgerImage image = *question.image;
  image.Release(question.released);
  for (const scheduler::ClusterChange& change : changes) {
    RETURN_IF_ERROR(scheduler::ApplyChange(change, image));
  }
  const scheduler::ImageLedger copy(image);
  const base::SteadyTime begin = clock.SteadyNow();
  const GangDecision decision = DecideGang(
      question.queued, question.request, question.quota, copy.ledger().product_names(),
      [&](const scheduler::PlacementRequest& request) { return Place(request, copy.ledger()); });
  answer.decide = clock.SteadyNow() - begin;
  if (decision.refusal) {
    FillRefusal(*decision.refusal, RefusedForGood(decision.refusal->reason), answer);
  } else if (const auto* placed = std::get_if<scheduler::Placed>(&decision.outcome)) {
    answer.decision = PlacementDecision::kFits;
    answer.effective.gpu_product = placed->product;
    answer.placement = PlacementOf(*placed, admission.shape.processes_per_pod, *image.cluster);
  } else {
    answer.decision = std::holds_alternative<scheduler::Never>(decision.outcome)
                          ? PlacementDecision::kNever
                          : PlacementDecision::kNotNow;
    answer.no_place = NoPlaceOf(decision.outcome);
  }
  return answer;
}

}  // namespace asterism::operators
