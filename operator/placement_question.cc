#include "operator/placement_question.h"

#include <utility>
#include <variant>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "operator/conditions.h"
#include "operator/gang_decision.h"
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

void FillRefusal(const Refusal& refusal, PlacementAnswer& answer) {
  answer.decision =
      RefusedForGood(refusal.reason) ? PlacementDecision::kNever : PlacementDecision::kNotNow;
  answer.no_place = {refusal.reason, refusal.message, "", std::nullopt};
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

absl::StatusOr<AskedJob> AdmitAsked(TrainingJob job, const AdmissionFacts& facts) {
  job.meta.uid = kUidOfNobody;
  job.status = {};
  AskedJob asked{.name = job.meta.Key(), .queue = job.spec.queue};
  asked.admission = Admit(job, job.status, facts);
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
    FillRefusal(*admission.refusal, answer);
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
    FillRefusal(*decision.refusal, answer);
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
