#include "planner/replan.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "planner/constraints.h"
#include "planner/device_memory.h"
#include "planner/memory_model.h"
#include "planner/rank_map.h"
#include "planner/time_model.h"

namespace asterism::planner {
namespace {

// The plan on fewer data ranks; nothing where that is illegal or does not fit.
std::optional<PlanCandidate> ShrinkTo(const SearchRequest& request, ParallelPlan plan,
                                      int64_t data) {
  plan.degrees.data = data;
  if (plan.global_batch % (plan.micro_batch * data) != 0) {
    return std::nullopt;
  }
  if (plan.degrees.DenseReplicas() % plan.replicas != 0) {
    plan.replicas = 1;
  }
  const int64_t gpus = plan.degrees.Gpus();
  if (!CheckDegrees(plan).ok() || !IsLegal(request.model, plan, gpus)) {
    return std::nullopt;
  }
  const RuntimeProfile& profile = ProfileOf(request.runtime);
  const DeviceMemory memory =
      EstimateDevice(EstimateMemory(request.model, plan, profile).allocated(), profile);
  if (!Fits(memory, request.cluster.gpu.memory_bytes)) {
    return std::nullopt;
  }
  return PlanCandidate{
      .plan = plan,
      .gpus = gpus,
      .seconds =
          EstimateTime(request.model, plan, request.cluster, profile, request.constants).Seconds(),
      .device_bytes = memory.device.high};
}

// The fastest that keeps the shards on at most `gpus`.
std::optional<PlanCandidate> KeptPlan(const SearchRequest& request, const ParallelPlan& plan,
                                      int64_t gpus) {
  const Degrees& d = plan.degrees;
  std::optional<PlanCandidate> best;
  for (int64_t data = gpus / (d.tensor * d.context * d.pipeline); data >= 1; --data) {
    const std::optional<PlanCandidate> candidate = ShrinkTo(request, plan, data);
    if (candidate.has_value() && (!best.has_value() || candidate->seconds < best->seconds)) {
      best = candidate;
    }
    // Fewer ranks have more to do.
    if (best.has_value() && data * 2 < best->plan.degrees.data) {
      break;
    }
  }
  return best;
}

// A part of the weights as an interval of layers and one of every matrix.
struct WeightPart {
  double layers_begin = 0;
  double layers_end = 0;
  double matrix_begin = 0;
  double matrix_end = 0;

  double Share() const { return (layers_end - layers_begin) * (matrix_end - matrix_begin); }
};

double OverlapOf(double a_begin, double a_end, double b_begin, double b_end) {
  return std::max(0.0, std::min(a_end, b_end) - std::max(a_begin, b_begin));
}

WeightPart PartOf(const ParallelPlan& plan, const RankCoordinates& at) {
  const auto pipeline = static_cast<double>(plan.degrees.pipeline);
  const auto tensor = static_cast<double>(plan.degrees.tensor);
  return {static_cast<double>(at.pipeline) / pipeline,
          static_cast<double>(at.pipeline + 1) / pipeline, static_cast<double>(at.tensor) / tensor,
          static_cast<double>(at.tensor + 1) / tensor};
}

// Which part of its weights' optimizer state a rank keeps.
std::pair<double, double> ShardOf(const ParallelPlan& plan, const RankCoordinates& at) {
  if (plan.sharding == Sharding::kNone) {
    return {0, 1};
  }
  const int64_t shards = plan.degrees.DenseReplicas() / plan.replicas;
  const int64_t place = (at.data * plan.degrees.context + at.context) % shards;
  return {static_cast<double>(place) / static_cast<double>(shards),
          static_cast<double>(place + 1) / static_cast<double>(shards)};
}

}  // namespace

double BytesToMove(const SearchRequest& request, const ParallelPlan& from, const ParallelPlan& to) {
  const StateFormat& format = ProfileOf(request.runtime).states;
  const auto parameters = static_cast<double>(CountParameters(request.model).total);
  const double weight_bytes = parameters * format.weight_bytes;
  const double optimizer_bytes = parameters * (format.master_bytes + format.moment_bytes);
  const RankMap before(from, RankOrder::kDataBeforePipeline);
  const RankMap after(to, RankOrder::kDataBeforePipeline);
  double bytes = 0;
  for (int64_t rank = 0; rank < after.ranks(); ++rank) {
    const RankCoordinates at = after.CoordinatesOf(rank);
    const WeightPart part = PartOf(to, at);
    const auto [shard_begin, shard_end] = ShardOf(to, at);
    double held = 0;
    double held_shard = 0;
    if (rank < before.ranks()) {
      const RankCoordinates was = before.CoordinatesOf(rank);
      const WeightPart old = PartOf(from, was);
      const auto [old_begin, old_end] = ShardOf(from, was);
      held = OverlapOf(part.layers_begin, part.layers_end, old.layers_begin, old.layers_end) *
             OverlapOf(part.matrix_begin, part.matrix_end, old.matrix_begin, old.matrix_end);
      // Equal parts are cut into shards alike; of others nothing is counted as held.
      const bool alike = held >= part.Share() * (1 - 1e-9) && held >= old.Share() * (1 - 1e-9);
      held_shard = alike ? held * OverlapOf(shard_begin, shard_end, old_begin, old_end) : 0;
    }
    const double weights = to.sharding == Sharding::kFull ? 0 : part.Share() - held;
    bytes += weight_bytes * weights +
             optimizer_bytes * (part.Share() * (shard_end - shard_begin) - held_shard);
  }
  return std::max(0.0, bytes);
}

absl::StatusOr<Replanned> Replan(const SearchRequest& request, const ParallelPlan& plan,
                                 int64_t lost_gpus) {
  RETURN_IF_ERROR(CheckDegrees(plan));
  const int64_t left = plan.degrees.Gpus() - lost_gpus;
  if (lost_gpus < 0 || left < 1) {
    return absl::InvalidArgumentError(fmt::format("lost_gpus: {} is out of range: use 0 to {}",
                                                  lost_gpus, plan.degrees.Gpus() - 1));
  }
  const std::optional<PlanCandidate> kept = KeptPlan(request, plan, left);
  SearchRequest rest = request;
  rest.gpus = left;
  rest.max_spare_gpus = std::min(request.max_spare_gpus, left - 1);
  rest.top_k = 1;
  if (kept.has_value()) {
    rest.slower_than_seconds = kept->seconds / (1 + kRegretMax);
  }
  ASSIGN_OR_RETURN(const SearchOutcome outcome, SearchPlans(rest));
  Replanned next;
  if (outcome.best.empty()) {
    if (!kept.has_value()) {
      return absl::FailedPreconditionError(
          fmt::format("gpus: no plan fits on {} GPUs: free more, or allow spares", left));
    }
    next.next = *kept;
    next.keeps_shards = true;
  } else {
    next.next = outcome.best.front();
    next.regret = kept.has_value() ? kept->seconds / next.next.seconds - 1
                                   : std::numeric_limits<double>::infinity();
  }
  next.bytes_to_move = BytesToMove(request, plan, next.next.plan);
  return next;
}

std::vector<int64_t> LegalWorldSizes(const SearchRequest& request, const ParallelPlan& plan,
                                     size_t most) {
  std::vector<int64_t> sizes;
  for (int64_t data = plan.degrees.data - 1; data >= 1 && sizes.size() < most; --data) {
    if (const auto candidate = ShrinkTo(request, plan, data); candidate.has_value()) {
      sizes.push_back(candidate->gpus);
    }
  }
  return sizes;
}

int64_t MinimumGpus(const SearchRequest& request) {
  const int64_t unit = std::min<int64_t>(8, request.cluster.levels.front().gpus);
  const auto fits = [&request](int64_t gpus) {
    SearchRequest one = request;
    one.gpus = gpus;
    one.max_spare_gpus = 0;
    one.top_k = 1;
    const auto outcome = SearchPlans(one);
    return outcome.ok() && !outcome->best.empty();
  };
  for (int64_t gpus = 1; gpus < unit; ++gpus) {
    if (fits(gpus)) {
      return gpus;
    }
  }
  int64_t high = unit;
  while (!fits(high)) {
    if (high >= kMinimumGpusMax) {
      return 0;
    }
    high *= 2;
  }
  for (int64_t gpus = high / 2 + unit; gpus < high; gpus += unit) {
    if (fits(gpus)) {
      return gpus;
    }
  }
  return high;
}

}  // namespace asterism::planner
