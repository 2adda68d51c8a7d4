// Small fixed workloads for test/bench/instruction-gate, which counts their instructions under
// callgrind: only what runs inside MeasuredRegion counts.
//
//   instruction_workload --list
//   instruction_workload place-128-pods
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/snapshot.h"
#include "fmt/format.h"
#include "kube/decoder.h"
#include "scheduler/extender/extender.h"
#include "scheduler/ledger.h"
#include "scheduler/placement.h"
#include "test/extender/view_builder.h"
#include "topology/cluster.h"

extern "C" [[gnu::noinline]] void MeasuredRegion(const std::function<void()>& work) {
  work();
}

namespace asterism {
namespace {

// Runs once to warm caches and buffers, then counts.
void Measure(const std::function<void()>& work) {
  work();
  MeasuredRegion(work);
}

// Nodes of 8 GPUs in supernodes of 4, 1,280 of them where nothing is said; every fifth node is half
// taken by a foreign pod.
class FullSizeLedger {
 public:
  explicit FullSizeLedger(size_t nodes = 1280)
      : gpu_slot_(*table_.SlotOf("nvidia.com/gpu")), ledger_(table_) {
    std::vector<topology::NodeFacts> facts;
    for (size_t i = 0; i < nodes; ++i) {
      facts.push_back({NodeName(i), {fmt::format("sn-{:04}", i / 4)}});
    }
    ledger_.SetCluster(std::make_shared<const topology::Cluster>(
        topology::BuildCluster({"node", "supernode", "cluster"}, std::move(facts)).value()));
    for (size_t i = 0; i < nodes; ++i) {
      scheduler::NodeState state{.name = NodeName(i)};
      state.allocatable = Amounts(192'000, 8, 110);
      ledger_.SetNode(state);
      if (i % 5 == 0) {
        scheduler::PodState pod{.uid = NodeName(i), .name = "foreign/" + NodeName(i)};
        pod.node = NodeName(i);
        pod.requests = Amounts(1000, 4, 1);
        ledger_.PutPod(pod);
      }
    }
  }

  scheduler::PlacementRequest Gang(int64_t pods) const {
    scheduler::PlacementRequest request;
    request.pods = pods;
    request.request = Amounts(8000, 8, 1);
    request.gpu_slot = gpu_slot_;
    return request;
  }
  scheduler::Ledger& ledger() { return ledger_; }

 private:
  static std::string NodeName(size_t index) { return fmt::format("gpu-{:04}", index); }
  scheduler::ResourceVector Amounts(int64_t cpu_milli, int64_t gpus, int64_t pods) const {
    scheduler::ResourceVector amounts;
    amounts[scheduler::kCpuSlot] = cpu_milli;
    amounts[scheduler::kPodsSlot] = pods;
    amounts[gpu_slot_] = gpus;
    return amounts;
  }

  scheduler::ResourceTable table_;
  size_t gpu_slot_;
  scheduler::Ledger ledger_;
};

void PlaceGang(int64_t pods, size_t nodes = 1280) {
  FullSizeLedger full(nodes);
  const scheduler::PlacementRequest request = full.Gang(pods);
  Measure([&] {
    CHECK_THAT(std::holds_alternative<scheduler::Placed>(scheduler::Place(request, full.ledger())),
               "the gang must fit");
  });
}

// One pod comes or goes, and the extender gets a new picture.
void PublishView() {
  FullSizeLedger full;
  bool there = false;
  Measure([&] {
    there = !there;
    if (there) {
      full.ledger().PutPod({.uid = "pod", .name = "foreign/pod", .node = "gpu-0001"});
    } else {
      full.ledger().RemovePod("pod");
    }
    CHECK_THAT(full.ledger().View() != nullptr, "a view");
  });
}

enum class ExtenderVerb { kFilter, kPrioritize };

// `pinned`: a pod of a gang and its one node; else a single pod and all nodes.
void AskExtender(ExtenderVerb verb, bool pinned) {
  scheduler::testing::ViewBuilder builder({.supernodes = 320, .nodes_per_supernode = 4});
  const std::string home = builder.NodeName(7, 2);
  builder.AddBlock("job-uid", 0, home, 1, "");
  const base::SystemClock clock;
  base::MetricRegistry registry;
  base::SnapshotCell<scheduler::LedgerView> cell;
  cell.Publish(builder.Build());
  scheduler::Extender extender(
      clock, cell, [] { return scheduler::ExtenderReadiness::kReady; }, registry,
      scheduler::ExtenderOptions{.gpu_resources = {"nvidia.com/gpu"}});
  scheduler::testing::PodShape pod{.gpus = pinned ? 8 : 1};
  pod.job_uid = pinned ? "job-uid" : "";
  const scheduler::testing::PaddedBody body(scheduler::testing::ArgsJson(
      pod, pinned ? std::vector<std::string>{home} : builder.NodeNames()));
  std::string answer;
  Measure([&] {
    answer.clear();
    const int code = verb == ExtenderVerb::kFilter ? extender.Filter(body.view(), answer)
                                                   : extender.Prioritize(body.view(), answer);
    CHECK_THAT(code == 200, "the extender must answer");
  });
}

void DecodePodJson() {
  const std::string text = scheduler::testing::PodJson({.job_uid = "job-uid", .extra_bytes = 2000});
  const kube::RawObject object{kube::Encoding::kJson, text};
  Measure([&] { CHECK_THAT(kube::DecodePod(object).ok(), "the pod must decode"); });
}

struct Workload {
  std::string_view name;
  std::function<void()> run;
};

std::vector<Workload> Workloads() {
  return {
      {"place-1-pod", [] { PlaceGang(1); }},
      {"place-128-pods", [] { PlaceGang(128); }},
      {"place-1024-pods", [] { PlaceGang(1024); }},
      {"place-64-of-12800", [] { PlaceGang(64, 12'800); }},
      {"publish-view", [] { PublishView(); }},
      {"filter-pinned", [] { AskExtender(ExtenderVerb::kFilter, true); }},
      {"filter-1280", [] { AskExtender(ExtenderVerb::kFilter, false); }},
      {"prioritize-1280", [] { AskExtender(ExtenderVerb::kPrioritize, false); }},
      {"decode-pod-json", [] { DecodePodJson(); }},
  };
}

}  // namespace
}  // namespace asterism

int main(int argc, char** argv) {
  const std::string_view wanted = argc == 2 ? argv[1] : "";
  bool found = false;
  for (const asterism::Workload& workload : asterism::Workloads()) {
    if (wanted == "--list") {
      fmt::print("{}\n", workload.name);
      found = true;
    } else if (wanted == workload.name) {
      workload.run();
      found = true;
    }
  }
  if (!found) {
    fmt::print(stderr, "usage: instruction_workload NAME | --list\n");
  }
  return found ? 0 : 2;
}
