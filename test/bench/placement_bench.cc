// How long one placement takes, on empty and on crowded clusters.
//
//   placement_bench              a table
//   placement_bench --json       one JSON object a line
//   placement_bench --operations N   N placements without a clock, for instruction counts
//
// A cluster has nodes of 8 GPUs in supernodes of 4, racks of 16 and one cluster level; other gangs
// of 1 to 8 nodes hold part of it. Nothing of what is placed is booked, so that every
// placement meets the same cluster; only Place is timed, in CPU time of its thread, so that other
// programs of the machine do not count. Budgets: architecture.md section 8, for one core.
// `allocations` counts calls of operator new in one Place after warm-up, its answer included.

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "fmt/format.h"
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

constexpr int64_t kGpusOfNode = 8;

class BenchCluster {
 public:
  explicit BenchCluster(size_t nodes)
      : ledger_(table_), gpu_slot_(*table_.SlotOf("nvidia.com/gpu")) {
    std::vector<topology::NodeFacts> facts;
    for (size_t i = 0; i < nodes; ++i) {
      facts.push_back(
          {fmt::format("gpu-{:05}", i), {fmt::format("s{}", i / 4), fmt::format("r{}", i / 64)}});
    }
    auto built = topology::BuildCluster({"node", "supernode", "rack", "cluster"}, facts);
    ledger_.SetCluster(std::make_shared<const topology::Cluster>(*std::move(built)));
    for (const topology::NodeFacts& fact : facts) {
      NodeState state;
      state.name = fact.name;
      state.allocatable[kCpuSlot] = 192'000;
      state.allocatable[kMemorySlot] = int64_t{2} << 40;
      state.allocatable[kPodsSlot] = 110;
      state.allocatable[gpu_slot_] = kGpusOfNode;
      state.product = "H200";
      ledger_.SetNode(state);
    }
  }

  PlacementRequest Request(const std::string& uid, int64_t pods, int64_t gpus) const {
    PlacementRequest request;
    request.gang_uid = uid;
    request.pods = pods;
    request.gpu_slot = gpu_slot_;
    request.request[kCpuSlot] = 16'000 * gpus;
    request.request[kMemorySlot] = (int64_t{128} << 30) * gpus;
    request.request[kPodsSlot] = 1;
    request.request[gpu_slot_] = gpus;
    return request;
  }

  void Book(const PlacementRequest& request, const Placed& placed) {
    Gang gang;
    gang.uid = request.gang_uid;
    gang.name = "bench/" + request.gang_uid;
    gang.gpu_slot = gpu_slot_;
    gang.gpus_per_block = request.request[gpu_slot_];
    gang.request = request.request;
    for (size_t pod = 0; pod < placed.nodes.size(); ++pod) {
      gang.blocks.push_back(
          {static_cast<int64_t>(pod), ledger_.cluster().node_name(placed.nodes[pod]), 1});
    }
    ledger_.PutGang(gang);
  }

  // Fills the whole cluster with gangs, then lets random ones go until `percent` is held: what is
  // free is scattered as after weeks of work.
  void Crowd(int percent, base::Rng& rng) {
    if (percent == 0) {
      return;
    }
    std::vector<std::string> uids;
    std::vector<int64_t> gpus;
    int64_t held = 0;
    for (;;) {
      const std::string uid = fmt::format("old-{:05}", uids.size());
      const int64_t pods = rng.Chance(0.5) ? 1 : 1 + static_cast<int64_t>(rng.Below(8));
      const int64_t each = pods > 1 ? kGpusOfNode : int64_t{1} << rng.Below(4);
      const PlacementRequest request = Request(uid, pods, each);
      const PlacementOutcome outcome = Place(request, ledger_);
      const auto* placed = std::get_if<Placed>(&outcome);
      if (placed == nullptr) {
        break;
      }
      Book(request, *placed);
      uids.push_back(uid);
      gpus.push_back(pods * each);
      held += gpus.back();
    }
    const int64_t wanted = static_cast<int64_t>(ledger_.node_count()) * kGpusOfNode * percent / 100;
    while (held > wanted) {
      const size_t index = rng.Below(uids.size());
      ledger_.RemoveGang(uids[index]);
      held -= gpus[index];
      uids[index] = uids.back();
      gpus[index] = gpus.back();
      uids.pop_back();
      gpus.pop_back();
    }
  }

  Ledger& ledger() { return ledger_; }

 private:
  ResourceTable table_;
  Ledger ledger_;
  size_t gpu_slot_;
};

struct Case {
  size_t nodes = 0;
  int occupancy = 0;
  int64_t pods = 0;
  int64_t gpus = 0;
};

std::string NameOf(const Case& item) {
  return fmt::format("place_{}x{}_of_{}_nodes_{}_percent_held", item.pods, item.gpus, item.nodes,
                     item.occupancy);
}

struct Budget {
  double p50_us = 0;  // 0: none
  double p99_us = 0;
};

Budget BudgetOf(const Case& item) {
  const bool small = item.pods <= 64;
  if (item.nodes <= 1280) {
    return small ? Budget{50, 100} : Budget{0, 1000};
  }
  return small ? Budget{0, 500} : Budget{0, 5000};
}

bool g_json = false;
bool g_met = true;

void Report(const std::string& name, const char* unit, double value, double budget) {
  const bool ok = budget == 0 || value <= budget;
  g_met = g_met && ok;
  if (g_json) {
    fmt::print("{{\"name\":\"{}\",\"unit\":\"{}\",\"value\":{:.2f},\"budget\":{},\"ok\":{}}}\n",
               name, unit, value, budget == 0 ? "null" : fmt::format("{}", budget), ok);
  } else {
    fmt::print("{:<66} {:>12.2f} {:<12} {:>8} {}\n", name, value, unit,
               budget == 0 ? "-" : fmt::format("{}", budget), ok ? "" : "MISSED");
  }
}

double ThreadCpuUs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

void RunCase(BenchCluster& cluster, const Case& item) {
  const PlacementRequest request = cluster.Request("bench", item.pods, item.gpus);
  const int runs = item.pods >= 512 ? 300 : 2000;
  std::vector<double> times_us;
  int64_t allocations = 0;
  std::string outcome_name;
  for (int run = -20; run < runs; ++run) {
    const int64_t allocated = allocation_count.load(std::memory_order_relaxed);
    const double begin = ThreadCpuUs();
    const PlacementOutcome outcome = Place(request, cluster.ledger());
    const double end = ThreadCpuUs();
    if (run >= 0) {
      times_us.push_back(end - begin);
      allocations = allocation_count.load(std::memory_order_relaxed) - allocated;
    }
    outcome_name = std::holds_alternative<Placed>(outcome) ? "" : "_not_placed";
  }
  std::sort(times_us.begin(), times_us.end());
  const double p50 = times_us[times_us.size() / 2];
  const double p99 = times_us[times_us.size() * 99 / 100];
  // What cannot be placed is explained instead, at another cost and without a budget.
  const Budget budget = outcome_name.empty() ? BudgetOf(item) : Budget{};
  const std::string name = NameOf(item) + outcome_name;
  Report(name + "_p50", "us", p50, budget.p50_us);
  Report(name + "_p99", "us", p99, budget.p99_us);
  Report(name + "_allocations", "allocations", static_cast<double>(allocations), 0);
  Report(name + "_rate", "gangs/s", 1e6 / p50, 0);
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
         times_us[times_us.size() / 2], 0);
  cluster.ledger().RemovePod(pod.uid);
}

// Places gangs of all sizes, without a clock.
void RunOperations(int64_t operations) {
  base::Rng rng(1);
  BenchCluster cluster(1280);
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

int Run(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json") {
      g_json = true;
    } else if (argument == "--operations" && i + 1 < argc) {
      RunOperations(std::atoll(argv[i + 1]));
      return 0;
    } else {
      fmt::print(stderr, "usage: placement_bench [--json | --operations N]\n");
      return 2;
    }
  }
  for (const size_t nodes : {size_t{1280}, size_t{12800}}) {
    for (const int occupancy : {0, 50, 80, 95}) {
      base::Rng rng(static_cast<uint64_t>(occupancy));
      BenchCluster cluster(nodes);
      cluster.Crowd(occupancy, rng);
      for (const int64_t pods : {1, 8, 64, 512, 1280}) {
        RunCase(cluster, {nodes, occupancy, pods, kGpusOfNode});
      }
      RunCase(cluster, {nodes, occupancy, 64, 1});
      if (occupancy == 80) {
        RunView(cluster, nodes);
      }
    }
  }
  return g_met ? 0 : 1;
}

}  // namespace
}  // namespace asterism::scheduler

int main(int argc, char** argv) {
  return asterism::scheduler::Run(argc, argv);
}
