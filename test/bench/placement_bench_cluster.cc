#include "placement_bench_cluster.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "topology/cluster.h"

namespace asterism::scheduler {

std::vector<BenchLevel> DefaultLevels() {
  return {{"supernode", 4}, {"rack", 64}};
}

BenchCluster::BenchCluster(size_t nodes, const std::vector<BenchLevel>& levels)
    : ledger_(table_), gpu_slot_(*table_.SlotOf("nvidia.com/gpu")) {
  std::vector<std::string> names = {"node"};
  for (const BenchLevel& level : levels) {
    names.push_back(level.name);
  }
  names.emplace_back("cluster");
  std::vector<topology::NodeFacts> facts;
  for (size_t i = 0; i < nodes; ++i) {
    facts.push_back({NodeName(i), {}});
    for (const BenchLevel& level : levels) {
      facts.back().domains.push_back(fmt::format("{}-{}", level.name, i / level.nodes));
    }
  }
  auto built = topology::BuildCluster(std::move(names), facts);
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

std::string BenchCluster::NodeName(size_t index) {
  return fmt::format("gpu-{:05}", index);
}

PlacementRequest BenchCluster::Request(const std::string& uid, int64_t pods, int64_t gpus) const {
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

void BenchCluster::Book(const PlacementRequest& request, const Placed& placed) {
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
  gangs_.push_back({request.gang_uid, request.pods * request.request[gpu_slot_]});
  held_ += gangs_.back().gpus;
}

void BenchCluster::ReleaseAt(size_t index) {
  ledger_.RemoveGang(gangs_[index].uid);
  held_ -= gangs_[index].gpus;
  gangs_[index] = gangs_.back();
  gangs_.pop_back();
}

void BenchCluster::Release(const std::string& uid) {
  const auto it =
      std::find_if(gangs_.begin(), gangs_.end(), [&](const Held& gang) { return gang.uid == uid; });
  if (it != gangs_.end()) {
    ReleaseAt(static_cast<size_t>(it - gangs_.begin()));
  }
}

bool BenchCluster::AddRandomGang(base::Rng& rng) {
  const int64_t pods = rng.Chance(0.5) ? 1 : 1 + static_cast<int64_t>(rng.Below(8));
  const int64_t each = pods > 1 ? kGpusOfNode : int64_t{1} << rng.Below(4);
  const PlacementRequest request = Request(fmt::format("old-{:06}", next_gang_++), pods, each);
  Place(request, ledger_, outcome_);
  const auto* placed = std::get_if<Placed>(&outcome_);
  if (placed == nullptr) {
    return false;
  }
  Book(request, *placed);
  return true;
}

void BenchCluster::Crowd(int percent, base::Rng& rng) {
  if (percent == 0) {
    return;
  }
  while (AddRandomGang(rng)) {
  }
  wanted_ = gpus() * percent / 100;
  while (held_ > wanted_) {
    ReleaseAt(rng.Below(gangs_.size()));
  }
}

void BenchCluster::Churn(base::Rng& rng) {
  if (gangs_.empty()) {
    return;
  }
  wanted_ = wanted_ < 0 ? held_ : wanted_;
  do {
    ReleaseAt(rng.Below(gangs_.size()));
  } while (held_ > wanted_);
  for (int tries = 0; held_ < wanted_ && tries < 8; ++tries) {
    AddRandomGang(rng);
  }
}

}  // namespace asterism::scheduler
