#include "planner/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "planner/constraints.h"
#include "planner/device_memory.h"
#include "planner/memory_model.h"
#include "planner/time_model.h"

namespace asterism::planner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int64_t kSpareGpusMax = 1024;
constexpr size_t kFirstCounts = 16;

std::vector<int64_t> DivisorsUpTo(int64_t number, int64_t most) {
  std::vector<int64_t> divisors;
  for (int64_t each = 1; each <= std::min(number, most); ++each) {
    if (number % each == 0) {
      divisors.push_back(each);
    }
  }
  return divisors;
}

std::vector<int64_t> AllDivisors(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t each = 1; each * each <= number; ++each) {
    if (number % each == 0) {
      divisors.push_back(each);
      if (each * each != number) {
        divisors.push_back(number / each);
      }
    }
  }
  return divisors;
}

bool Allows(int64_t fixed, int64_t value) {
  return fixed == 0 || fixed == value;
}

std::vector<Sharding> ShardingsOf(Framework framework) {
  switch (framework) {
    case Framework::kMegatron:
      return {Sharding::kNone, Sharding::kOptimizer};
    case Framework::kDeepSpeed:
      return {Sharding::kNone, Sharding::kOptimizer, Sharding::kGradients, Sharding::kFull};
    case Framework::kTorchTitan:
    case Framework::kAccelerate:
      return {Sharding::kFull};
  }
  return {};
}

std::vector<RecomputeMode> RecomputesOf(Framework framework) {
  switch (framework) {
    case Framework::kMegatron:
      return {RecomputeMode::kNone, RecomputeMode::kSelective, RecomputeMode::kFull};
    case Framework::kTorchTitan:
      return {RecomputeMode::kNone, RecomputeMode::kOperators, RecomputeMode::kFull};
    case Framework::kDeepSpeed:
    case Framework::kAccelerate:
      return {RecomputeMode::kNone, RecomputeMode::kFull};
  }
  return {};
}

ContextExchange ContextExchangeOf(Framework framework) {
  switch (framework) {
    case Framework::kDeepSpeed:
      return ContextExchange::kAllToAll;
    case Framework::kMegatron:
    case Framework::kTorchTitan:
    case Framework::kAccelerate:
      break;
  }
  return ContextExchange::kRing;
}

bool SplitsNorms(Framework framework) {
  return framework == Framework::kMegatron || framework == Framework::kTorchTitan;
}

// One set of degrees, and what is known of all plans with it.
struct Subtree {
  Degrees degrees;
  double bound = 0;
  bool refined = false;
  uint64_t plans = 0;
};

auto DegreesKey(const Degrees& d) {
  return std::make_tuple(d.pipeline, d.tensor, d.context, d.expert, d.data);
}

struct OpensLater {
  bool operator()(const Subtree& a, const Subtree& b) const {
    return std::make_tuple(a.bound, DegreesKey(a.degrees)) >
           std::make_tuple(b.bound, DegreesKey(b.degrees));
  }
};

bool IsBetterPlan(const PlanCandidate& a, const PlanCandidate& b) {
  const auto key = [](const PlanCandidate& each) {
    const ParallelPlan& plan = each.plan;
    return std::make_tuple(each.seconds, each.device_bytes, DegreesKey(plan.degrees),
                           plan.virtual_stages, plan.micro_batch,
                           static_cast<int>(plan.recompute.mode), static_cast<int>(plan.sharding));
  };
  return key(a) < key(b);
}

class PlanSearch {
 public:
  explicit PlanSearch(const SearchRequest& request)
      : request_(request),
        profile_(ProfileOf(request.runtime)),
        shardings_(ShardingsOf(request.framework)),
        recomputes_(RecomputesOf(request.framework)),
        expert_degrees_(
            DivisorsUpTo(std::max<int64_t>(1, request.model.experts.count), request.most.expert)) {}

  // Counts of GPUs that share most with the batch come first: their best plan leaves little to look
  // at of the others.
  SearchOutcome Run() {
    SearchCertificate& certificate = outcome_.certificate;
    certificate.min_pruned_bound = kNever;
    const std::vector<int64_t> counts = GpuCounts();
    for (size_t index = 0; index < counts.size(); ++index) {
      AddSubtrees(counts[index]);
      if (index + 1 == kFirstCounts) {
        OpenSubtrees();
      }
    }
    OpenSubtrees();
    if (!outcome_.best.empty()) {
      certificate.best_seconds = outcome_.best.front().seconds;
    }
    certificate.proven =
        certificate.min_pruned_bound == kNever ||
        (!outcome_.best.empty() && certificate.min_pruned_bound >= certificate.best_seconds);
    return std::move(outcome_);
  }

 private:
  std::vector<int64_t> GpuCounts() const {
    std::vector<int64_t> counts;
    for (int64_t gpus = request_.gpus; gpus >= request_.gpus - request_.max_spare_gpus; --gpus) {
      if (gpus % request_.gpu_step == 0) {
        counts.push_back(gpus);
      }
    }
    std::stable_sort(counts.begin(), counts.end(), [this](int64_t a, int64_t b) {
      return std::gcd(a, request_.global_batch) > std::gcd(b, request_.global_batch);
    });
    return counts;
  }

  // Best first: a subtree is told apart by a cheap bound until its turn comes, then by its own.
  void OpenSubtrees() {
    while (!subtrees_.empty()) {
      if (subtrees_.front().bound > Worst() ||
          outcome_.certificate.evaluated >= request_.max_evaluations) {
        // The first has the least bound of all.
        std::for_each(subtrees_.begin(), subtrees_.end(),
                      [this](const Subtree& subtree) { Prune(subtree); });
        subtrees_.clear();
        return;
      }
      std::pop_heap(subtrees_.begin(), subtrees_.end(), OpensLater());
      const Subtree subtree = subtrees_.back();
      subtrees_.pop_back();
      if (!subtree.refined) {
        Refine(subtree);
      } else {
        Open(subtree);
      }
    }
  }

  ParallelPlan PlanWith(const Degrees& degrees) const {
    ParallelPlan plan;
    plan.framework = request_.framework;
    plan.precision = request_.precision;
    plan.degrees = degrees;
    plan.sequence_parallel = degrees.tensor > 1 && SplitsNorms(request_.framework);
    if (degrees.context > 1) {
      plan.context_exchange = ContextExchangeOf(request_.framework);
    }
    plan.global_batch = request_.global_batch;
    plan.sequence = request_.sequence;
    plan.sharding = shardings_.back();
    return plan;
  }

  // By data degrees first, which have to divide the batch: most counts of GPUs have few of them.
  void AddSubtrees(int64_t gpus) {
    const FixedDegrees& fixed = request_.fixed;
    const AxisLimits& most = request_.most;
    const std::vector<int64_t> tensors = DivisorsUpTo(gpus, most.tensor);
    const std::vector<int64_t> pipelines = DivisorsUpTo(gpus, most.pipeline);
    for (const int64_t data : AllDivisors(std::gcd(gpus, request_.global_batch))) {
      const int64_t rest = gpus / data;
      if (!Allows(fixed.data, data) ||
          static_cast<double>(rest) > static_cast<double>(most.tensor) *
                                          static_cast<double>(most.pipeline) *
                                          static_cast<double>(most.context)) {
        continue;
      }
      for (const int64_t tensor : tensors) {
        if (rest % tensor != 0 || !Allows(fixed.tensor, tensor)) {
          continue;
        }
        const int64_t left = rest / tensor;
        for (const int64_t pipeline : pipelines) {
          const int64_t context = left / pipeline;
          if (context * pipeline == left && context <= most.context &&
              Allows(fixed.pipeline, pipeline) && Allows(fixed.context, context)) {
            AddExpertDegrees(
                {.tensor = tensor, .pipeline = pipeline, .context = context, .data = data});
          }
        }
      }
    }
  }

  // Experts that are spread only add an exchange to a micro-batch: what is too slow without needs
  // no look with.
  void AddExpertDegrees(Degrees degrees) {
    Subtree subtree{.plans = PlansWith(degrees)};
    if (degrees.pipeline > request_.model.layers || subtree.plans == 0) {
      return;
    }
    degrees.expert = 1;
    subtree.bound = SteadyBound(degrees);
    const bool hopeless = subtree.bound > Worst();
    for (const int64_t expert : expert_degrees_) {
      if (!Allows(request_.fixed.expert, expert) ||
          degrees.Gpus() % (degrees.pipeline * expert) != 0) {
        continue;
      }
      outcome_.certificate.space += subtree.plans;
      degrees.expert = expert;
      subtree.degrees = degrees;
      if (!hopeless && expert > 1) {
        subtree.bound = SteadyBound(degrees);
      }
      if (hopeless || subtree.bound > Worst()) {
        Prune(subtree);
      } else {
        Push(subtree);
      }
    }
  }

  std::vector<int64_t> MicroBatches(const Degrees& degrees) const {
    std::vector<int64_t> sizes =
        DivisorsUpTo(request_.global_batch / degrees.data, request_.most.micro_batch);
    std::erase_if(sizes,
                  [this](int64_t size) { return !Allows(request_.fixed.micro_batch, size); });
    return sizes;
  }

  // The layout of the layers, as the plan's fields for it, with every count of virtual stages.
  std::vector<ParallelPlan> Shapes(const ParallelPlan& plan) const {
    const int64_t p = plan.degrees.pipeline;
    const int64_t layers = request_.model.layers;
    if (p == 1) {
      return {plan};
    }
    ParallelPlan shape = plan;
    int64_t each = layers / p;
    if (layers % p != 0 && (layers + 2) % p == 0) {
      shape.count_embedding = true;
      shape.count_loss = true;
      each = (layers + 2) / p;
    } else if (layers % p != 0) {
      const int64_t inner = layers / p + 1;
      const int64_t rest = layers - inner * (p - 2);
      shape.last_layers = rest / 2;
      shape.first_layers = rest - rest / 2;
      each = 1;
      if (shape.last_layers < 1) {
        return {};
      }
    }
    std::vector<ParallelPlan> shapes;
    for (const int64_t virtual_stages : DivisorsUpTo(each, request_.most.virtual_stages)) {
      shape.virtual_stages = virtual_stages;
      shape.schedule =
          virtual_stages > 1 ? Schedule::kInterleaved : Schedule::kOneForwardOneBackward;
      shapes.push_back(shape);
    }
    return shapes;
  }

  // How many plans there are with the pipeline and the data degree, which thousands of sets of
  // degrees share.
  size_t PlansWith(const Degrees& degrees) {
    const auto [shapes, fresh_shapes] = shape_counts_.try_emplace(degrees.pipeline, 0);
    if (fresh_shapes) {
      shapes->second = Shapes(PlanWith(degrees)).size();
    }
    const auto [batches, fresh_batches] = batch_counts_.try_emplace(degrees.data, 0);
    if (fresh_batches) {
      batches->second = MicroBatches(degrees).size();
    }
    return batches->second * shapes->second * recomputes_.size() * shardings_.size();
  }

  void Push(const Subtree& subtree) {
    subtrees_.push_back(subtree);
    std::push_heap(subtrees_.begin(), subtrees_.end(), OpensLater());
  }

  void Prune(const Subtree& subtree) {
    SearchCertificate& certificate = outcome_.certificate;
    certificate.pruned += subtree.plans;
    certificate.min_pruned_bound = std::min(certificate.min_pruned_bound, subtree.bound);
  }

  // Its own bound, unless its least memory is too much.
  void Refine(Subtree subtree) {
    const std::vector<ParallelPlan> shapes = Shapes(PlanWith(subtree.degrees));
    ParallelPlan plan = shapes.front();
    double bound = kNever;
    double least = kNever;
    for (const Sharding sharding : shardings_) {
      plan.sharding = sharding;
      least = std::min(least, LeastDeviceBytes(plan, shapes));
      bound = std::min(bound, LowerBound(plan));
    }
    if (outcome_.least_device_bytes == 0 || least < outcome_.least_device_bytes) {
      outcome_.least_device_bytes = least;
    }
    if (least > request_.cluster.gpu.memory_bytes) {
      outcome_.certificate.pruned += subtree.plans;
      return;
    }
    subtree.bound = std::max(bound, subtree.bound);
    subtree.refined = true;
    Push(subtree);
  }

  // Whether the layers of a rank depend on its virtual stages: dense ones are only in front.
  bool IsMixed() const {
    return request_.model.experts.count > 0 && request_.model.dense_layers > 0;
  }

  // Of all plans with these degrees and this sharding: memory grows with the micro-batch, unless
  // the framework keeps gradients only while it adds them up, and with virtual stages, unless
  // they move layers between ranks.
  double LeastDeviceBytes(const ParallelPlan& plan, const std::vector<ParallelPlan>& shapes) const {
    const bool any_batch = profile_.unsharded_gradient_bytes > 0;
    const std::vector<int64_t> batches =
        any_batch ? MicroBatches(plan.degrees) : std::vector<int64_t>{1};
    double least = kNever;
    for (size_t index = 0; index < (IsMixed() ? shapes.size() : 1); ++index) {
      ParallelPlan shape = shapes[index];
      shape.sharding = plan.sharding;
      shape.recompute.mode = RecomputeMode::kFull;
      for (const int64_t micro_batch : batches) {
        shape.micro_batch = micro_batch;
        least = std::min(least, DeviceBytes(shape));
      }
    }
    return least;
  }

  double DeviceBytes(const ParallelPlan& plan) const {
    return EstimateDevice(EstimateMemory(request_.model, plan, profile_).allocated(), profile_)
        .device.high;
  }

  // The step without what no plan can avoid, of the smallest micro-batch.
  TimeEstimate IdealTime(ParallelPlan plan) const {
    TimeConstants ideal = request_.constants;
    ideal.half_tokens = 0;
    ideal.call_us = 0;
    ideal.launch_us = 0;
    plan.recompute.mode = RecomputeMode::kNone;
    plan.micro_batch = 1;
    ClusterSpec cluster = request_.cluster;
    for (ClusterLevel& level : cluster.levels) {
      level.latency_us = 0;
    }
    return EstimateTime(request_.model, plan, cluster, profile_, ideal);
  }

  static double SlotsOf(const TimeEstimate& time) {
    double slots = 0;
    for (const StageTime& stage : time.stages) {
      slots += stage.Slot();
    }
    return slots;
  }

  // The first term of LowerBound alone. A micro-batch of a data rank does not depend on how many of
  // them there are, nor do its stages together on how many share the layers, so that sets of
  // degrees share the work.
  double SteadyBound(const Degrees& d) {
    const auto [found, fresh] =
        slots_.try_emplace(std::make_tuple(d.tensor, d.context, d.expert), 0.0);
    if (fresh) {
      Degrees one_stage = d;
      one_stage.pipeline = 1;
      found->second = SlotsOf(IdealTime(PlanWith(one_stage)));
    }
    return PipelineSeconds(d, request_.global_batch / d.data, found->second) * (1 - 1e-9);
  }

  // The least of m x slowest + (slots - slowest) / v: with equal stages, and as many virtual stages
  // as there may be.
  double PipelineSeconds(const Degrees& d, int64_t micro_batches, double slots) const {
    const auto pipeline = static_cast<double>(d.pipeline);
    const double fill = (pipeline - 1) / static_cast<double>(request_.most.virtual_stages);
    return (static_cast<double>(micro_batches) + fill) * slots / pipeline;
  }

  // Of all plans with these degrees and this sharding.
  double LowerBound(ParallelPlan plan) const {
    plan.micro_batch = 1;
    const TimeEstimate time = IdealTime(plan);
    const double slots = SlotsOf(time);
    // FSDP exchanges once a micro-batch: of the largest there are the fewest.
    const double exchanges =
        plan.sharding == Sharding::kFull ? 1.0 / static_cast<double>(plan.MicroBatches()) : 1.0;
    const double steady = PipelineSeconds(plan.degrees, plan.MicroBatches(), slots);
    // Both grow with the largest rank, which virtual stages may make smaller.
    const double once = IsMixed() ? 0 : exchanges * time.data_exchange + time.optimizer;
    // A hair below, so that rounding never cuts what is equal.
    return (steady + once + time.other) * (1 - 1e-9);
  }

  // Seconds of the last of the k best; while there are fewer what the request gives.
  double Worst() const {
    const double given = request_.slower_than_seconds > 0 ? request_.slower_than_seconds : kNever;
    return outcome_.best.size() < request_.top_k ? given : outcome_.best.back().seconds;
  }

  void Open(const Subtree& subtree) {
    for (ParallelPlan plan : Shapes(PlanWith(subtree.degrees))) {
      for (const int64_t micro_batch : MicroBatches(subtree.degrees)) {
        plan.micro_batch = micro_batch;
        for (const Sharding sharding : shardings_) {
          plan.sharding = sharding;
          EvaluateRecomputes(plan);
        }
      }
    }
  }

  double SecondsOf(const ParallelPlan& plan) const {
    return EstimateTime(request_.model, plan, request_.cluster, profile_, request_.constants)
        .Seconds();
  }

  // What is made again in the backward only adds to the step: where it is too slow without, no
  // other way has to be looked at.
  void EvaluateRecomputes(ParallelPlan plan) {
    outcome_.certificate.evaluated += recomputes_.size();
    for (const RecomputeMode mode : recomputes_) {
      plan.recompute.mode = mode;
      const double seconds = SecondsOf(plan);
      if (mode == RecomputeMode::kNone && seconds > Worst()) {
        return;
      }
      Consider(plan, seconds);
    }
  }

  void Consider(const ParallelPlan& plan, double seconds) {
    const int64_t gpus = plan.degrees.Gpus();
    if (seconds > Worst() || !IsLegal(request_.model, plan, gpus)) {
      return;
    }
    PlanCandidate candidate{.plan = plan, .gpus = gpus, .seconds = seconds};
    candidate.device_bytes = DeviceBytes(plan);
    if (candidate.device_bytes > request_.cluster.gpu.memory_bytes) {
      return;
    }
    std::vector<PlanCandidate>& best = outcome_.best;
    best.insert(std::upper_bound(best.begin(), best.end(), candidate, IsBetterPlan), candidate);
    if (best.size() > request_.top_k) {
      best.pop_back();
    }
  }

  const SearchRequest& request_;
  const RuntimeProfile& profile_;
  std::vector<Sharding> shardings_;
  std::vector<RecomputeMode> recomputes_;
  std::vector<int64_t> expert_degrees_;
  std::vector<Subtree> subtrees_;  // a heap
  absl::flat_hash_map<std::tuple<int64_t, int64_t, int64_t>, double> slots_;
  absl::flat_hash_map<int64_t, size_t> shape_counts_;  // by pipeline degree
  absl::flat_hash_map<int64_t, size_t> batch_counts_;  // by data degree
  SearchOutcome outcome_;
};

absl::Status CheckRequest(const SearchRequest& request) {
  RETURN_IF_ERROR(CheckModel(request.model));
  RETURN_IF_ERROR(CheckCluster(request.cluster));
  if (request.gpus < 1 || request.gpus > kDegreeMax) {
    return absl::InvalidArgumentError(
        fmt::format("gpus: {} is out of range: use 1 to {}", request.gpus, kDegreeMax));
  }
  if (request.max_spare_gpus < 0 ||
      request.max_spare_gpus > std::min(kSpareGpusMax, request.gpus - 1)) {
    return absl::InvalidArgumentError(fmt::format("max_spare_gpus: {} is out of range: use 0 to {}",
                                                  request.max_spare_gpus,
                                                  std::min(kSpareGpusMax, request.gpus - 1)));
  }
  if (request.gpu_step < 1 || request.gpu_step > request.gpus) {
    return absl::InvalidArgumentError(
        fmt::format("gpu_step: {} is out of range: use 1 to {}", request.gpu_step, request.gpus));
  }
  if (request.global_batch < 1 || request.global_batch > (int64_t{1} << 32) ||
      request.sequence < 1 || request.sequence > (int64_t{1} << 32)) {
    return absl::InvalidArgumentError(
        fmt::format("global_batch, sequence: {} and {} are out of range: use 1 to 2^32",
                    request.global_batch, request.sequence));
  }
  if (request.top_k < 1 || request.top_k > 1000) {
    return absl::InvalidArgumentError(
        fmt::format("top_k: {} is out of range: use 1 to 1000", request.top_k));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SearchOutcome> SearchPlans(const SearchRequest& request) {
  RETURN_IF_ERROR(CheckRequest(request));
  return PlanSearch(request).Run();
}

absl::Status CheckOutcome(const SearchRequest& request, const SearchOutcome& outcome) {
  const SearchCertificate& certificate = outcome.certificate;
  if (certificate.space != certificate.evaluated + certificate.pruned) {
    return absl::InternalError(fmt::format("{} plans are not {} evaluated and {} pruned",
                                           certificate.space, certificate.evaluated,
                                           certificate.pruned));
  }
  double before = 0;
  for (const PlanCandidate& each : outcome.best) {
    const RuntimeProfile& profile = ProfileOf(request.runtime);
    RETURN_IF_ERROR(CheckDegrees(each.plan));
    const std::vector<Violation> violations = CheckPlan(request.model, each.plan, each.gpus);
    if (!violations.empty()) {
      return absl::InternalError(
          fmt::format("a plan breaks {}: {}", violations[0].id, violations[0].message));
    }
    const double seconds =
        EstimateTime(request.model, each.plan, request.cluster, profile, request.constants)
            .Seconds();
    const DeviceMemory memory =
        EstimateDevice(EstimateMemory(request.model, each.plan, profile).allocated(), profile);
    if (seconds != each.seconds || seconds < before ||
        !Fits(memory, request.cluster.gpu.memory_bytes)) {
      return absl::InternalError(fmt::format(
          "a plan takes {} s and not {}, is out of order, or does not fit", seconds, each.seconds));
    }
    before = seconds;
  }
  const bool beaten =
      !outcome.best.empty() && certificate.min_pruned_bound < outcome.best.front().seconds;
  if (certificate.proven && beaten) {
    return absl::InternalError("the certificate claims a proof that its bound does not give");
  }
  return absl::OkStatus();
}

}  // namespace asterism::planner
