#include "planner/plan_answer.h"

#include <algorithm>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "planner/rank_map.h"
#include "planner/replan.h"
#include "planner/time_model.h"

namespace asterism::planner {
namespace {

void FillAnswer(const SearchRequest& request, PlanAnswer& answer) {
  const ParallelPlan& plan = answer.best().plan;
  const RuntimeProfile& profile = ProfileOf(request.runtime);
  answer.memory = EstimateMemory(request.model, plan, profile);
  answer.device = EstimateDevice(answer.memory.allocated(), profile);
  const double error =
      ConstantsOfGpu(request.cluster.gpu.name) == nullptr ? kTimeErrorOther : kTimeErrorCalibrated;
  const double seconds = answer.best().seconds;
  answer.seconds = {seconds * (1 - error), seconds, seconds * (1 + error)};
  answer.time_terms = TermsOfStep(request, plan);
  answer.tuned = TuneLaunch({.model = request.model,
                             .plan = plan,
                             .cluster = request.cluster,
                             .profile = profile,
                             .constants = request.constants,
                             .memory = answer.device});
  answer.neighbours = RejectedNeighbours(request, plan, kNeighboursShown);
  answer.bound_by = BoundBy(request, plan, answer.neighbours);
  const RankMap map(plan, RankOrder::kDataBeforePipeline);
  answer.groups =
      EstimateTraffic(request.model, plan, request.cluster, profile, request.constants, map);
  answer.state_copies = static_cast<int64_t>(map.SameStates(0).size());
  answer.weight_copies = static_cast<int64_t>(map.SameWeights(0).size());
  answer.legal_world_sizes = LegalWorldSizes(request, plan, kWorldSizesShown);
}

std::string ImpossibleText(const SearchRequest& request, const PlanAnswer& answer) {
  const double least = answer.outcome.least_device_bytes;
  if (answer.outcome.certificate.space == 0) {
    return fmt::format(
        "gpus: no degrees divide {} GPUs, the layers and the global batch {} together: change "
        "gpus, globalBatchSize or a fixed degree, or allow spare GPUs{}",
        request.gpus, request.global_batch,
        answer.minimum_gpus > 0 ? fmt::format(" ({} GPUs would do)", answer.minimum_gpus) : "");
  }
  if (least > 0 && least <= request.cluster.gpu.memory_bytes) {
    return fmt::format(
        "plan: every set of degrees that fits breaks a rule of {}: change gpus, globalBatchSize "
        "or a fixed degree{}",
        ProfileOf(request.runtime).name,
        answer.minimum_gpus > 0 ? fmt::format(" ({} GPUs would do)", answer.minimum_gpus) : "");
  }
  return fmt::format(
      "gpus: {} needs at least {:.1f} GiB of each of {} GPUs, and one has {:.1f}: {}",
      request.model.name, least / (1 << 30), request.gpus,
      request.cluster.gpu.memory_bytes / (1 << 30),
      answer.minimum_gpus > 0
          ? fmt::format("use {} GPUs or more", answer.minimum_gpus)
          : fmt::format("it fits on no count up to {}: use GPUs with more memory or free a fixed "
                        "degree",
                        kMinimumGpusMax));
}

}  // namespace

absl::StatusOr<PlanAnswer> AnswerPlan(const SearchRequest& request) {
  PlanAnswer answer;
  ASSIGN_OR_RETURN(answer.outcome, SearchPlans(request));
  if (answer.outcome.best.empty()) {
    answer.minimum_gpus = MinimumGpus(request);
    answer.impossible = ImpossibleText(request, answer);
    return answer;
  }
  FillAnswer(request, answer);
  return answer;
}

PlanAnswer DescribePlan(const SearchRequest& request, const ParallelPlan& plan) {
  const RuntimeProfile& profile = ProfileOf(request.runtime);
  PlanAnswer answer;
  PlanCandidate candidate{.plan = plan, .gpus = plan.degrees.Gpus()};
  candidate.seconds =
      EstimateTime(request.model, plan, request.cluster, profile, request.constants).Seconds();
  candidate.device_bytes =
      EstimateDevice(EstimateMemory(request.model, plan, profile).allocated(), profile).device.high;
  answer.outcome.best.push_back(candidate);
  FillAnswer(request, answer);
  return answer;
}

Runtime RuntimeOf(Framework framework) {
  switch (framework) {
    case Framework::kMegatron:
      return Runtime::kMegatron;
    case Framework::kDeepSpeed:
      return Runtime::kDeepSpeedBf16;
    case Framework::kTorchTitan:
    case Framework::kAccelerate:
      return Runtime::kTorchTitan;
  }
  return Runtime::kMegatron;
}

}  // namespace asterism::planner
