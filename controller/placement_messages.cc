#include "controller/placement_messages.h"

#include "asterism/v1/placement.pb.h"
#include "operator/node_ranges.h"

namespace asterism::controller {
namespace {

void FillPlaced(const operators::PlacementStatus& status, v1::Placed& placed) {
  placed.set_epoch(status.epoch);
  for (const operators::PlacementLevelStatus& level : status.levels) {
    v1::LevelUse& use = *placed.add_levels();
    use.set_level(level.level);
    use.set_domains(level.domains);
    use.set_ring_cuts(level.ring_cuts);
    use.set_ring_cuts_minimum(level.ring_cuts_minimum);
  }
  for (const operators::PlacementRun& from : status.runs) {
    v1::Run& run = *placed.add_runs();
    run.set_domain(from.domain);
    run.set_nodes(operators::FormatNodeRanges(from.nodes));
    run.set_first_rank(from.first_rank);
    run.set_ranks(from.ranks);
    run.set_epoch(from.epoch);
  }
  std::vector<std::string> spares;
  for (const operators::SpareRun& from : status.spares) {
    spares.insert(spares.end(), from.nodes.begin(), from.nodes.end());
  }
  placed.set_spare_nodes(operators::FormatNodeRanges(spares));
}

void FillEffective(const operators::EffectiveStatus& status, v1::Effective& effective) {
  effective.set_job_class(status.job_class);
  effective.set_gpus_per_pod(status.gpus_per_pod);
  effective.set_gpu_product(status.gpu_product);
  effective.set_processes_per_pod(status.processes_per_pod);
  effective.set_pods(status.pods);
  effective.set_spares(status.spares);
}

v1::Decision::Outcome OutcomeOf(operators::PlacementDecision decision) {
  switch (decision) {
    case operators::PlacementDecision::kFits:
      return v1::Decision::PLACED;
    case operators::PlacementDecision::kNotNow:
      return v1::Decision::NOT_NOW;
    case operators::PlacementDecision::kNever:
      break;
  }
  return v1::Decision::NEVER;
}

void FillTimings(const operators::TimingStatus& status, v1::Timings& timings) {
  if (status.queued_ms) {
    timings.set_queued_milliseconds(*status.queued_ms);
  }
  if (status.decide_us) {
    timings.set_decide_microseconds(*status.decide_us);
  }
  if (status.commit_ms) {
    timings.set_commit_milliseconds(*status.commit_ms);
  }
  if (status.start_ms) {
    timings.set_start_milliseconds(*status.start_ms);
  }
}

}  // namespace

void FillDecision(const operators::PlacementAnswer& answer, v1::Decision& decision) {
  decision.set_outcome(OutcomeOf(answer.decision));
  decision.set_reason(answer.no_place.reason);
  decision.set_message(answer.no_place.message);
  decision.set_nearest_change(answer.no_place.nearest_change);
  if (answer.decision == operators::PlacementDecision::kFits) {
    FillPlaced(answer.placement, *decision.mutable_placement());
  }
  if (answer.effective.pods > 0) {
    FillEffective(answer.effective, *decision.mutable_effective());
  }
  decision.set_queue_position(answer.queue_position);
  for (const std::string* warning : {&answer.command_warning, &answer.ignored_fields}) {
    if (!warning->empty()) {
      decision.add_warnings(*warning);
    }
  }
  decision.set_decide_microseconds(absl::ToInt64Microseconds(answer.decide));
  decision.set_ledger_version(answer.ledger_version);
}

void FillExplanation(const operators::TrainingJob& job, const operators::TrainingJobStatus& status,
                     int64_t queue_position, v1::ExplainResponse& response) {
  response.mutable_job()->set_namespace_(job.meta.namespace_name);
  response.mutable_job()->set_name(job.meta.name);
  response.set_queue(job.spec.queue);
  response.set_gpus(job.spec.gpus);
  response.set_state(status.state);
  if (!status.waiting.reason.empty() || queue_position > 0) {
    v1::Waiting& waiting = *response.mutable_waiting();
    waiting.set_reason(status.waiting.reason);
    waiting.set_message(status.waiting.message);
    waiting.set_queue_position(queue_position);
    waiting.set_nearest_change(status.waiting.nearest_change);
  }
  if (!status.placement.runs.empty()) {
    FillPlaced(status.placement, *response.mutable_placement());
  }
  FillEffective(status.effective, *response.mutable_effective());
  v1::PodCounts& pods = *response.mutable_pods();
  pods.set_desired(status.pods.desired);
  pods.set_bound(status.pods.bound);
  pods.set_running(status.pods.running);
  pods.set_succeeded(status.pods.succeeded);
  pods.set_failed(status.pods.failed);
  FillTimings(status.timings, *response.mutable_timings());
  response.set_restarts(status.restarts.count);
}

}  // namespace asterism::controller
