#include "planner/explain.h"

#include <algorithm>

#include "fmt/format.h"
#include "planner/constraints.h"
#include "planner/device_memory.h"
#include "planner/memory_model.h"
#include "planner/time_model.h"

namespace asterism::planner {
namespace {

struct DegreeAxis {
  std::string_view name;
  int64_t Degrees::*degree;
};
constexpr DegreeAxis kDegreeAxes[] = {
    {"tensor", &Degrees::tensor},
    {"pipeline", &Degrees::pipeline},
    {"context", &Degrees::context},
    {"data", &Degrees::data},
};

std::string_view WordOfRecompute(RecomputeMode mode) {
  switch (mode) {
    case RecomputeMode::kNone:
      return "none";
    case RecomputeMode::kSelective:
      return "selective";
    case RecomputeMode::kModules:
      return "modules";
    case RecomputeMode::kOperators:
      return "operators";
    case RecomputeMode::kFull:
      return "full";
  }
  return "";
}

std::string_view WordOfSharding(Sharding sharding) {
  switch (sharding) {
    case Sharding::kNone:
      return "none";
    case Sharding::kOptimizer:
      return "optimizer";
    case Sharding::kGradients:
      return "gradients";
    case Sharding::kFull:
      return "full";
  }
  return "";
}

class NeighbourFinder {
 public:
  NeighbourFinder(const SearchRequest& request, const ParallelPlan& plan)
      : request_(request), profile_(ProfileOf(request.runtime)), plan_(plan) {}

  std::vector<RejectedNeighbour> Find(size_t most) {
    MoveDegrees();
    ChangeCounts();
    ChangeModes();
    std::stable_sort(found_.begin(), found_.end(),
                     [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    if (found_.size() > most) {
      found_.resize(most);
    }
    return std::move(found_);
  }

 private:
  void Look(ParallelPlan plan, std::string change) {
    plan.sequence_parallel = plan.sequence_parallel && plan.degrees.tensor > 1;
    if (!CheckDegrees(plan).ok() || plan.degrees.pipeline > request_.model.layers) {
      return;
    }
    RejectedNeighbour neighbour{.change = std::move(change)};
    const int64_t gpus = plan.degrees.Gpus();
    std::vector<Violation> violations = CheckPlan(request_.model, plan, gpus);
    if (!violations.empty()) {
      neighbour.id = violations.front().id;
      neighbour.reason = std::move(violations.front().message);
    } else {
      const DeviceMemory memory =
          EstimateDevice(EstimateMemory(request_.model, plan, profile_).allocated(), profile_);
      if (Fits(memory, request_.cluster.gpu.memory_bytes)) {
        return;
      }
      neighbour.id = "memory.fits";
      neighbour.reason = fmt::format(
          "needs up to {:.1f} GiB of a GPU's {:.1f}: shard or recompute more, or use more GPUs",
          memory.device.high / (1 << 30), request_.cluster.gpu.memory_bytes / (1 << 30));
    }
    neighbour.seconds =
        EstimateTime(request_.model, plan, request_.cluster, profile_, request_.constants)
            .Seconds();
    found_.push_back(std::move(neighbour));
  }

  void MoveDegrees() {
    for (const DegreeAxis& from : kDegreeAxes) {
      for (const DegreeAxis& to : kDegreeAxes) {
        for (const int64_t factor : {2, 3}) {
          const int64_t before = plan_.degrees.*from.degree;
          if (from.degree == to.degree || before % factor != 0) {
            continue;
          }
          ParallelPlan plan = plan_;
          plan.degrees.*from.degree /= factor;
          plan.degrees.*to.degree *= factor;
          if (plan.degrees.pipeline == 1) {
            plan.virtual_stages = 1;
            plan.schedule = Schedule::kOneForwardOneBackward;
            plan.first_layers = plan.last_layers = 0;
            plan.count_embedding = plan.count_loss = false;
          }
          Look(plan, fmt::format("{} {} -> {}, {} {} -> {}", from.name, before, before / factor,
                                 to.name, plan_.degrees.*to.degree, plan.degrees.*to.degree));
        }
      }
    }
  }

  void ChangeCounts() {
    const auto count = [this](int64_t& field, std::string_view name, auto apply) {
      const int64_t before = field;
      for (const int64_t after : {before * 2, before / 2}) {
        if (after >= 1) {
          field = after;
          Look(apply(changed_), fmt::format("{} {} -> {}", name, before, after));
        }
      }
      field = before;
    };
    const auto same = [](const ParallelPlan& plan) { return plan; };
    changed_ = plan_;
    count(changed_.micro_batch, "micro_batch", same);
    if (request_.model.experts.count > 0) {
      count(changed_.degrees.expert, "expert", same);
    }
    if (plan_.degrees.pipeline > 1) {
      count(changed_.virtual_stages, "virtual_stages", [](ParallelPlan plan) {
        plan.schedule =
            plan.virtual_stages > 1 ? Schedule::kInterleaved : Schedule::kOneForwardOneBackward;
        return plan;
      });
    }
  }

  void ChangeModes() {
    for (const RecomputeMode mode :
         {RecomputeMode::kNone, RecomputeMode::kSelective, RecomputeMode::kFull}) {
      if (mode != plan_.recompute.mode) {
        ParallelPlan plan = plan_;
        plan.recompute = {.mode = mode};
        Look(plan, fmt::format("recompute {} -> {}", WordOfRecompute(plan_.recompute.mode),
                               WordOfRecompute(mode)));
      }
    }
    for (const Sharding sharding :
         {Sharding::kNone, Sharding::kOptimizer, Sharding::kGradients, Sharding::kFull}) {
      if (sharding != plan_.sharding) {
        ParallelPlan plan = plan_;
        plan.sharding = sharding;
        Look(plan, fmt::format("sharding {} -> {}", WordOfSharding(plan_.sharding),
                               WordOfSharding(sharding)));
      }
    }
  }

  const SearchRequest& request_;
  const RuntimeProfile& profile_;
  const ParallelPlan& plan_;
  ParallelPlan changed_;
  std::vector<RejectedNeighbour> found_;
};

}  // namespace

std::vector<RejectedNeighbour> RejectedNeighbours(const SearchRequest& request,
                                                  const ParallelPlan& plan, size_t most) {
  return NeighbourFinder(request, plan).Find(most);
}

std::vector<std::pair<std::string_view, double>> TermsOfStep(const SearchRequest& request,
                                                             const ParallelPlan& plan) {
  const TimeEstimate time = EstimateTime(request.model, plan, request.cluster,
                                         ProfileOf(request.runtime), request.constants);
  const auto slowest =
      std::max_element(time.stages.begin(), time.stages.end(),
                       [](const auto& a, const auto& b) { return a.Slot() < b.Slot(); });
  const auto steps = static_cast<double>(plan.MicroBatches());
  return {{"products", steps * slowest->products},
          {"attention", steps * slowest->attention},
          {"elementwise", steps * slowest->elementwise},
          {"tensor exchange", steps * slowest->tensor_exchange},
          {"context exchange", steps * slowest->context_exchange},
          {"expert exchange", steps * slowest->expert_exchange},
          {"head and loss", steps * slowest->head},
          {"pipeline fill", time.fill},
          {"pipeline exchange", time.pipeline_exchange},
          {"data exchange", time.data_exchange},
          {"optimizer", time.optimizer},
          {"other", time.other}};
}

std::string BoundBy(const SearchRequest& request, const ParallelPlan& plan,
                    const std::vector<RejectedNeighbour>& neighbours) {
  double seconds = 0;
  std::pair<std::string_view, double> largest;
  for (const auto& term : TermsOfStep(request, plan)) {
    seconds += term.second;
    largest = term.second > largest.second ? term : largest;
  }
  if (!neighbours.empty() && neighbours.front().seconds < seconds) {
    const RejectedNeighbour& first = neighbours.front();
    return fmt::format("{}: {} would take {:.3g} s instead of {:.3g}, but {}", first.id,
                       first.change, first.seconds, seconds, first.reason);
  }
  return fmt::format("{}: {:.0f} % of the step", largest.first, 100 * largest.second / seconds);
}

}  // namespace asterism::planner
