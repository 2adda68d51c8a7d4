#include "job_mix.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <queue>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"

namespace asterism::scheduler {
namespace {

constexpr double kDayS = 86'400;
constexpr double kDurationMaxS = 1'209'600;
// Tries of those that wait, each time a job ends.
constexpr size_t kTriesMax = 20;

// Shares of jobs that last at most this long.
constexpr std::array<double, 9> kDurationsS = {16,     64,     256,     1'024,    4'096,
                                               16'384, 65'536, 262'144, 2'097'152};

struct SizeWeight {
  int64_t gpus = 0;
  double weight = 0;
};

struct JobKind {
  double share = 0;    // of the GPU-seconds
  double stretch = 1;  // of the durations below
  double burst = 1;    // jobs that come together, on average
  std::array<double, 9> cdf{};
  std::vector<SizeWeight> sizes;
};

// Durations: the published distributions of the Acme clusters (CC BY 4.0), to three digits.
std::vector<JobKind> JobKinds() {
  return {
      {0.45,
       1,
       1,
       {.000, .098, .257, .571, .719, .824, .933, .989, 1},
       {{256, .20}, {512, .42}, {1024, .26}, {2048, .10}, {4096, .02}}},
      {0.20,
       2,
       1,
       {.156, .274, .468, .734, .841, .884, .943, .988, 1},
       {{64, .35}, {128, .35}, {256, .22}, {512, .08}}},
      {0.15,
       4,
       3,
       {.147, .334, .502, .797, .892, .929, .989, .998, 1},
       {{1, .30}, {2, .10}, {4, .15}, {8, .30}, {16, .08}, {32, .05}, {64, .02}}},
      {0.10,
       4,
       2,
       {.126, .276, .576, .893, .973, .992, .998, 1, 1},
       {{1, .12}, {2, .18}, {4, .15}, {8, .45}, {16, .08}, {32, .02}}},
      {0.08,
       4,
       24,
       {.252, .374, .672, .888, .965, .991, .998, 1, 1},
       {{1, .62}, {2, .10}, {4, .13}, {8, .15}}},
      {0.02,
       1,
       1,
       {.193, .391, .684, .912, .974, .988, .996, .999, 1},
       {{8, .80}, {16, .10}, {64, .07}, {128, .03}}},
  };
}

struct Job {
  double arrival_s = 0;
  double duration_s = 0;
  int64_t gpus = 0;
};

// The duration below which a share `u` of the jobs lies; between two points on a logarithmic scale.
double DurationAt(const std::array<double, 9>& cdf, double u) {
  double last_s = 1;
  double last_share = 0;
  for (size_t i = 0; i < cdf.size(); ++i) {
    if (cdf[i] >= u) {
      const double part = (u - last_share) / std::max(1e-9, cdf[i] - last_share);
      return std::exp(std::log(last_s) + part * (std::log(kDurationsS[i]) - std::log(last_s)));
    }
    last_s = kDurationsS[i];
    last_share = cdf[i];
  }
  return kDurationsS.back();
}

int64_t SizeAt(const std::vector<SizeWeight>& sizes, double u) {
  for (const SizeWeight& size : sizes) {
    u -= size.weight;
    if (u < 0) {
      return size.gpus;
    }
  }
  return sizes.back().gpus;
}

// In the order of their arrival.
std::vector<Job> DrawJobs(const MixOptions& options, int64_t gpus) {
  base::Rng rng(options.seed);
  const double span_s = options.days * kDayS;
  std::vector<Job> jobs;
  for (const JobKind& kind : JobKinds()) {
    const double budget = kind.share * options.load * static_cast<double>(gpus) * span_s;
    double got = 0;
    while (got < budget) {
      const double arrival_s = rng.Uniform() * span_s;
      const double more = kind.burst <= 1 ? 0 : -std::log(1 - rng.Uniform()) * (kind.burst - 1);
      for (auto left = static_cast<int64_t>(more) + 1; left > 0 && got < budget; --left) {
        Job job;
        job.gpus = SizeAt(kind.sizes, rng.Uniform());
        job.duration_s =
            std::clamp(kind.stretch * DurationAt(kind.cdf, rng.Uniform()), 20.0, kDurationMaxS);
        job.arrival_s = arrival_s + rng.Uniform() * 60;
        got += job.duration_s * static_cast<double>(job.gpus);
        jobs.push_back(job);
      }
    }
  }
  std::sort(jobs.begin(), jobs.end(), [](const Job& left, const Job& right) {
    return std::pair(left.arrival_s, left.gpus) < std::pair(right.arrival_s, right.gpus);
  });
  return jobs;
}

class Replay {
 public:
  Replay(BenchCluster& cluster, const MixOptions& options, DecideGang decide)
      : cluster_(cluster), decide_(decide), jobs_(DrawJobs(options, cluster.gpus())) {}

  MixResult Run() {
    for (size_t index = 0; index < jobs_.size(); ++index) {
      EndUntil(jobs_[index].arrival_s);
      if (!TryToStart(index, jobs_[index].arrival_s)) {
        waiting_.push_back(index);
      }
    }
    return {.jobs = jobs_.size(),
            .waiting = waiting_.size(),
            .held_percent = 100.0 * static_cast<double>(cluster_.held_gpus()) /
                            static_cast<double>(cluster_.gpus())};
  }

 private:
  using End = std::pair<double, size_t>;  // when, which job

  static std::string UidOf(size_t index) { return fmt::format("mix-{}", index); }

  bool TryToStart(size_t index, double now_s) {
    const Job& job = jobs_[index];
    if (cluster_.gpus() - cluster_.held_gpus() < job.gpus) {
      return false;
    }
    const int64_t pods = std::max<int64_t>(1, job.gpus / kGpusOfNode);
    const PlacementRequest request = cluster_.Request(UidOf(index), pods, job.gpus / pods);
    decide_(request, cluster_.ledger(), outcome_);
    const auto* placed = std::get_if<Placed>(&outcome_);
    if (placed == nullptr) {
      outcome_ = Placed();
      return false;
    }
    cluster_.Book(request, *placed);
    ends_.push({now_s + job.duration_s, index});
    return true;
  }

  void EndUntil(double now_s) {
    while (!ends_.empty() && ends_.top().first <= now_s) {
      const auto [end_s, index] = ends_.top();
      ends_.pop();
      cluster_.Release(UidOf(index));
      for (size_t i = 0, tries = 0; i < waiting_.size() && tries < kTriesMax; ++tries) {
        if (TryToStart(waiting_[i], end_s)) {
          waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
        } else {
          ++i;
        }
      }
    }
  }

  BenchCluster& cluster_;
  DecideGang decide_;
  std::vector<Job> jobs_;
  std::deque<size_t> waiting_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  PlacementOutcome outcome_ = Placed();
};

}  // namespace

std::vector<int64_t> MixSizes(const MixOptions& options, size_t count) {
  std::vector<int64_t> sizes;
  for (const Job& job : DrawJobs(options, static_cast<int64_t>(options.nodes) * kGpusOfNode)) {
    if (sizes.size() < count) {
      sizes.push_back(job.gpus);
    }
  }
  return sizes;
}

MixResult ReplayMix(BenchCluster& cluster, const MixOptions& options, DecideGang decide) {
  return Replay(cluster, options, decide).Run();
}

}  // namespace asterism::scheduler
