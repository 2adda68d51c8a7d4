// How long one placement takes, on empty, crowded and aged clusters.
//
//   placement_bench                   1,280 and 12,800 nodes: a table
//   placement_bench --nodes 12800     one of them
//   placement_bench --json            one JSON object a line
//   placement_bench --operations N    N placements without a clock, for instruction counts
//
// A cluster has nodes of 8 GPUs in supernodes of 4, racks of 16 supernodes and one cluster level;
// other gangs hold part of it. Crowded: filled with gangs of 1 to 8 nodes, some of which went.
// Aged: a mix of jobs came and went for days (job_mix.h). What is decided is booked between the
// measurements and some other gang goes, so that no two decisions meet the same cluster; only Place
// is timed, in CPU time of its thread, so that other programs of the machine do not count.
// `allocations` counts calls of operator new in one Place after warm-up, into an outcome that is
// used again: the most of all decisions. Budgets: architecture.md section 8, for one core.

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "fmt/format.h"
#include "job_mix.h"
#include "placement_bench_cluster.h"
#include "scheduler/ledger.h"
#include "scheduler/placement.h"
#include "topology/cluster.h"

namespace {

std::atomic<int64_t> allocation_count{0};

}  // namespace

// Not inlined: at -O3 GCC would see malloc on one side only and warn of a mismatch.
[[gnu::noinline]] void* operator new(size_t size) {
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size == 0 ? 1 : size); memory != nullptr) {
    return memory;
  }
  std::abort();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace asterism::scheduler {
namespace {

enum class ClusterState { kEmpty, kHeld50, kHeld80, kHeld95, kAged };

struct StateName {
  ClusterState state;
  int percent;
  std::string_view name;
};
constexpr std::array<StateName, 5> kStates = {{{ClusterState::kEmpty, 0, "0_percent_held"},
                                               {ClusterState::kHeld50, 50, "50_percent_held"},
                                               {ClusterState::kHeld80, 80, "80_percent_held"},
                                               {ClusterState::kHeld95, 95, "95_percent_held"},
                                               {ClusterState::kAged, 0, "aged"}}};
constexpr std::array<int64_t, 7> kSizes = {1, 4, 16, 64, 128, 512, 1280};
constexpr int kRuns = 600;  // of each size and state: 21,000 decisions

// What a figure is to be: at most, or at least.
struct Limit {
  double value = 0;
  bool at_least = false;
};
using Budget = std::optional<Limit>;

struct Budgets {
  Budget p50_us;
  Budget p99_us;
};

Budgets BudgetsOf(size_t nodes, int64_t pods) {
  if (nodes <= 1280) {
    return pods <= 64 ? Budgets{Limit{50}, Limit{100}} : Budgets{{}, Limit{1000}};
  }
  if (pods <= 64) {
    return {{}, Limit{500}};
  }
  return pods <= 512 ? Budgets{Limit{300}, Limit{1000}} : Budgets{{}, Limit{5000}};
}

bool g_json = false;
bool g_met = true;

void Report(const std::string& name, const char* unit, double value, const Budget& budget) {
  const bool ok = !budget || (budget->at_least ? value >= budget->value : value <= budget->value);
  g_met = g_met && ok;
  if (g_json) {
    fmt::print("{{\"name\":\"{}\",\"unit\":\"{}\",\"value\":{:.2f},\"budget\":{},\"ok\":{}}}\n",
               name, unit, value, budget ? fmt::format("{}", budget->value) : "null", ok);
  } else {
    fmt::print("{:<58} {:>12.2f} {:<12} {:>8} {}\n", name, value, unit,
               budget ? fmt::format("{}", budget->value) : "-", ok ? "" : "MISSED");
  }
}

double ThreadCpuUs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// `times` must not be empty; it is sorted. `share`: 0.5 is the median.
double Quantile(std::vector<double>& times, double share) {
  std::sort(times.begin(), times.end());
  return times[std::min(times.size() - 1,
                        static_cast<size_t>(static_cast<double>(times.size()) * share))];
}

// Decisions timed one by one, those that found a place apart from those that found a reason.
struct Decisions {
  std::vector<double> placed_us;
  std::vector<double> refused_us;
  int64_t allocations = 0;  // the most of one that was placed

  // Returns whether it was placed.
  bool Time(const PlacementRequest& request, const Ledger& ledger, PlacementOutcome& outcome) {
    const int64_t allocated = allocation_count.load(std::memory_order_relaxed);
    const double begin = ThreadCpuUs();
    Place(request, ledger, outcome);
    const double time_us = ThreadCpuUs() - begin;
    const int64_t count = allocation_count.load(std::memory_order_relaxed) - allocated;
    const bool placed = std::holds_alternative<Placed>(outcome);
    if (placed) {
      allocations = std::max(allocations, count);
    }
    (placed ? placed_us : refused_us).push_back(time_us);
    return placed;
  }
};

constexpr MixOptions MixOf(size_t nodes) {
  // As many jobs an hour for each node; a day of the larger cluster has more than three of the
  // smaller one.
  return {.nodes = nodes, .load = 0.8, .days = nodes <= 1280 ? 3.0 : 1.0, .seed = 1};
}

Placed WithBuffers(int64_t pods) {
  Placed placed;
  placed.nodes.reserve(static_cast<size_t>(pods));
  placed.levels.reserve(topology::kLevelsMax);
  return placed;
}

void RunCase(BenchCluster& cluster, std::string_view state, int64_t pods) {
  const size_t nodes = cluster.ledger().node_count();
  base::Rng rng(static_cast<uint64_t>(pods));
  const PlacementRequest request = cluster.Request("bench", pods, kGpusOfNode);
  Decisions decisions;
  PlacementOutcome outcome = WithBuffers(pods);
  for (int run = -20; run < kRuns; ++run) {
    if (run == 0) {
      decisions = Decisions();
    }
    if (!decisions.Time(request, cluster.ledger(), outcome)) {
      outcome = WithBuffers(pods);  // the reason took their place
    }
    cluster.Churn(rng);
  }
  const std::string name = fmt::format("place_{}_nodes_of_{}_{}", pods, nodes, state);
  if (!decisions.placed_us.empty()) {
    const Budgets budgets = BudgetsOf(nodes, pods);
    Report(name + "_p50", "us", Quantile(decisions.placed_us, 0.5), budgets.p50_us);
    Report(name + "_p99", "us", Quantile(decisions.placed_us, 0.99), budgets.p99_us);
    Report(name + "_p999", "us", Quantile(decisions.placed_us, 0.999), {});
    Report(name + "_allocations", "allocations", static_cast<double>(decisions.allocations),
           Limit{0});
  }
  // What cannot be placed is explained instead, at another cost and without a budget.
  if (!decisions.refused_us.empty()) {
    Report(name + "_refused_p50", "us", Quantile(decisions.refused_us, 0.5), {});
    Report(name + "_refused_share", "of all",
           static_cast<double>(decisions.refused_us.size()) / kRuns, {});
  }
}

// Jobs of the mix come and go; every decision on the way is timed. Leaves the aged cluster.
void RunMix(BenchCluster& cluster) {
  const size_t nodes = cluster.ledger().node_count();
  Decisions small;
  Decisions large;
  const MixResult result = ReplayMix(
      cluster, MixOf(nodes),
      [&](const PlacementRequest& request, const Ledger& ledger, PlacementOutcome& outcome) {
        (request.pods <= 64 ? small : large).Time(request, ledger, outcome);
      });
  const std::string name = fmt::format("mix_of_{}_nodes", nodes);
  const Budgets budgets = BudgetsOf(nodes, 1);
  Report(name + "_decisions", "gangs",
         static_cast<double>(small.placed_us.size() + large.placed_us.size()), {});
  Report(name + "_held_at_the_end", "%", result.held_percent, {});
  Report(name + "_up_to_64_nodes_p50", "us", Quantile(small.placed_us, 0.5), budgets.p50_us);
  Report(name + "_up_to_64_nodes_p99", "us", Quantile(small.placed_us, 0.99), budgets.p99_us);
  Report(name + "_up_to_64_nodes_p999", "us", Quantile(small.placed_us, 0.999), {});
  if (!large.placed_us.empty()) {
    Report(name + "_above_64_nodes_p50", "us", Quantile(large.placed_us, 0.5), {});
    Report(name + "_above_64_nodes_p99", "us", Quantile(large.placed_us, 0.99),
           BudgetsOf(nodes, 128).p99_us);
  }
}

// Gangs of 8 GPUs, decided and booked one after the other.
void RunRate(BenchCluster& cluster) {
  constexpr int kGangs = 1000;
  std::vector<std::string> uids;
  PlacementOutcome outcome;
  const double begin = ThreadCpuUs();
  for (int i = 0; i < kGangs; ++i) {
    uids.push_back(fmt::format("rate-{}", i));
    const PlacementRequest request = cluster.Request(uids.back(), 1, kGpusOfNode);
    Place(request, cluster.ledger(), outcome);
    if (const auto* placed = std::get_if<Placed>(&outcome)) {
      cluster.Book(request, *placed);
    }
  }
  const double each_us = (ThreadCpuUs() - begin) / kGangs;
  for (const std::string& uid : uids) {
    cluster.Release(uid);
  }
  Report(fmt::format("place_and_book_8_GPUs_of_{}_nodes_rate", cluster.ledger().node_count()),
         "gangs/s", 1e6 / each_us, Limit{5000, true});
}

// What a leader does once it has decoded all objects.
void RunRebuild(size_t nodes) {
  const double begin = ThreadCpuUs();
  BenchCluster cluster(nodes, DefaultLevels());
  const auto pods = static_cast<size_t>(kGpusOfNode) * nodes;
  for (size_t i = 0; i < pods; ++i) {
    PodState pod;
    pod.uid = fmt::format("pod-{}", i);
    pod.name = "default/" + pod.uid;
    pod.node = BenchCluster::NodeName(i % nodes);
    pod.requests = cluster.Request("", 1, 1).request;
    cluster.ledger().PutPod(pod);
  }
  Report(fmt::format("rebuild_of_{}_nodes_and_{}_pods", nodes, pods), "ms",
         (ThreadCpuUs() - begin) / 1e3, Limit{1000});
}

// Two levels more, on the same nodes and for the same gangs, in turns, so that a busy machine slows
// down both. More levels also mean other splits to choose from, so large gangs may take more or
// less time for that reason alone: they are told apart.
void RunLevels(size_t nodes) {
  BenchCluster three(nodes, {{"supernode", 4}});
  BenchCluster five(nodes, {{"supernode", 4}, {"rack", 64}, {"row", 256}});
  for (BenchCluster* cluster : {&three, &five}) {
    base::Rng rng(1);
    cluster->Crowd(50, rng);
  }
  PlacementOutcome outcome = Placed();
  const auto median_ratio = [&](const std::vector<PlacementRequest>& requests, int runs) {
    const auto time_all = [&](BenchCluster& cluster) {
      const double begin = ThreadCpuUs();
      for (const PlacementRequest& request : requests) {
        Place(request, cluster.ledger(), outcome);
      }
      return ThreadCpuUs() - begin;
    };
    std::vector<double> ratios;
    for (int run = -5; run < runs; ++run) {
      const double of_three = time_all(three);
      const double of_five = time_all(five);
      if (run >= 0) {
        ratios.push_back(of_five / of_three);
      }
    }
    return Quantile(ratios, 0.5);
  };
  std::vector<PlacementRequest> mix;
  for (const int64_t gpus : MixSizes(MixOf(nodes), 100)) {
    const int64_t pods = std::max<int64_t>(1, gpus / kGpusOfNode);
    mix.push_back(three.Request("bench", pods, gpus / pods));
  }
  std::vector<PlacementRequest> sizes;
  for (const int64_t pods : kSizes) {
    sizes.push_back(
        three.Request("bench", std::min(pods, static_cast<int64_t>(nodes) / 4), kGpusOfNode));
  }
  Report(fmt::format("five_levels_to_three_of_{}_nodes_gangs_of_the_mix", nodes), "ratio",
         median_ratio(mix, 50), Limit{1.05});
  Report(fmt::format("five_levels_to_three_of_{}_nodes_all_sizes_alike", nodes), "ratio",
         median_ratio(sizes, 200), {});
}

// A pod is bound and a new view is made for the extender: what each watch event costs at most.
void RunView(BenchCluster& cluster, size_t nodes) {
  PodState pod;
  pod.uid = "bench";
  pod.requests[kPodsSlot] = 1;
  std::vector<double> times_us;
  for (int run = -20; run < 200; ++run) {
    pod.node = fmt::format("gpu-{:05}", static_cast<size_t>(run + 20) % nodes);
    const double begin = ThreadCpuUs();
    cluster.ledger().PutPod(pod);
    const std::shared_ptr<const LedgerView> view = cluster.ledger().View();
    if (run >= 0) {
      times_us.push_back(ThreadCpuUs() - begin);
    }
  }
  std::sort(times_us.begin(), times_us.end());
  Report(fmt::format("put_pod_and_view_of_{}_nodes_p50", nodes), "us",
         times_us[times_us.size() / 2], {});
  cluster.ledger().RemovePod(pod.uid);
}

// Places gangs of all sizes, without a clock.
void RunOperations(int64_t operations) {
  base::Rng rng(1);
  BenchCluster cluster(1280, DefaultLevels());
  cluster.Crowd(50, rng);
  const std::vector<int64_t> sizes = {1, 8, 64, 512};
  int64_t placed = 0;
  for (int64_t i = 0; i < operations; ++i) {
    const int64_t pods = sizes[static_cast<size_t>(i) % sizes.size()];
    const PlacementOutcome outcome =
        Place(cluster.Request("bench", pods, kGpusOfNode), cluster.ledger());
    placed += std::holds_alternative<Placed>(outcome) ? 1 : 0;
  }
  fmt::print("{} of {} placed\n", placed, operations);
}

void RunCluster(size_t nodes) {
  for (const StateName& state : kStates) {
    base::Rng rng(static_cast<uint64_t>(state.percent));
    BenchCluster cluster(nodes, DefaultLevels());
    if (state.state == ClusterState::kAged) {
      RunMix(cluster);
    } else {
      cluster.Crowd(state.percent, rng);
    }
    for (const int64_t pods : kSizes) {
      RunCase(cluster, state.name, pods);
    }
    if (state.state == ClusterState::kHeld50) {
      RunRate(cluster);
    } else if (state.state == ClusterState::kHeld80) {
      RunView(cluster, nodes);
    }
  }
  RunLevels(nodes);
  RunRebuild(nodes);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  Report(fmt::format("memory_of_the_process_with_{}_nodes", nodes), "MiB",
         static_cast<double>(usage.ru_maxrss) / 1024, Limit{1024});
}

int Run(int argc, char** argv) {
  std::vector<size_t> clusters = {1280, 12800};
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json") {
      g_json = true;
    } else if (argument == "--operations" && i + 1 < argc) {
      RunOperations(std::atoll(argv[i + 1]));
      return 0;
    } else if (argument == "--nodes" && i + 1 < argc && std::atoll(argv[i + 1]) >= 1280) {
      clusters = {static_cast<size_t>(std::atoll(argv[++i]))};
    } else {
      fmt::print(stderr,
                 "usage: placement_bench [--json] [--nodes N (1280 or more)] | --operations N\n");
      return 2;
    }
  }
  for (const size_t nodes : clusters) {
    RunCluster(nodes);
  }
  return g_met ? 0 : 1;
}

}  // namespace
}  // namespace asterism::scheduler

int main(int argc, char** argv) {
  return asterism::scheduler::Run(argc, argv);
}
