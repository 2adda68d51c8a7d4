#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "cluster_fixture.h"
#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "scheduler/ledger.h"
#include "scheduler/placement.h"

namespace asterism::scheduler {
namespace {

constexpr size_t kGpuSlot = 3;

// What the ledger should know, as plain maps; every answer is counted from scratch.
struct LedgerModel {
  std::vector<std::string> cluster;  // node names
  int border = 2;                    // of ClusterOf
  std::map<std::string, NodeState> nodes;
  std::map<std::string, PodState> pods;
  std::map<std::string, Gang> gangs;

  static std::string PlaceOf(const PodState& pod) {
    return pod.node.empty() ? pod.pinned_node : pod.node;
  }

  const PodState* PresentPod(const std::string& gang, const RankBlock& block) const {
    for (const auto& [uid, pod] : pods) {
      if (pod.gang_uid == gang && pod.first_rank == block.first_rank && pod.epoch == block.epoch &&
          PlaceOf(pod) == block.node && !pod.deleting && !pod.ended) {
        return &pod;
      }
    }
    return nullptr;
  }

  int64_t UsedGpus(const std::string& node) const {
    int64_t used = 0;
    std::vector<const PodState*> present;
    for (const auto& [uid, gang] : gangs) {
      for (const RankBlock& block : gang.blocks) {
        const PodState* pod = PresentPod(uid, block);
        present.push_back(pod);
        if (block.node == node) {
          const int64_t asked = pod == nullptr ? 0 : pod->requests[kGpuSlot];
          used += std::max({gang.request[kGpuSlot], asked, int64_t{0}});
        }
      }
      for (const Spare& spare : gang.spares) {
        used += spare.node == node ? std::max<int64_t>(gang.request[kGpuSlot], 0) : 0;
      }
    }
    for (const auto& [uid, pod] : pods) {
      const bool counted = std::find(present.begin(), present.end(), &pod) != present.end();
      if (pod.node == node && !pod.ended && !counted) {
        used += std::max<int64_t>(pod.requests[kGpuSlot], 0);
      }
    }
    return used;
  }
};

// Nodes below `border` are in one domain, the others in another: a new border moves nodes, and with
// them their ids.
std::shared_ptr<const topology::Cluster> ClusterOf(const std::vector<std::string>& names,
                                                   int border) {
  std::vector<topology::NodeFacts> facts;
  for (const std::string& name : names) {
    const bool below = name < "n" + std::to_string(border % 5);
    facts.push_back({name, {below == (border < 4) ? "left" : "right"}});
  }
  auto built = topology::BuildCluster({"node", "leaf", "cluster"}, facts);
  RC_ASSERT(built.ok());
  return std::make_shared<const topology::Cluster>(*std::move(built));
}

// One change, drawn as small numbers so that a failure shrinks well.
using Change = std::vector<int>;

PodState PodOf(const Change& change) {
  PodState pod;
  pod.uid = "p" + std::to_string(change[1] % 6);
  pod.name = "default/" + pod.uid;
  pod.node = change[2] < 5 ? "n" + std::to_string(change[2]) : "";
  pod.pinned_node = change[3] < 5 ? "n" + std::to_string(change[3]) : "";
  pod.gang_uid = change[4] < 3 ? "" : "g" + std::to_string(change[4] % 2);
  pod.first_rank = change[5] % 3;
  pod.epoch = change[6] % 2;
  pod.deleting = change[7] == 7;
  pod.ended = change[7] == 6;
  pod.requests[kGpuSlot] = change[6] - 1;
  return pod;
}

Gang GangOf(const Change& change) {
  Gang gang;
  gang.uid = "g" + std::to_string(change[1] % 2);
  gang.name = "default/" + gang.uid;
  gang.queue = "q" + std::to_string(change[2] % 2);
  gang.epoch = change[3];
  gang.gpu_slot = kGpuSlot;
  gang.request[kGpuSlot] = change[4] - 1;
  for (int i = 0; i < change[5] % 4; ++i) {
    gang.blocks.push_back({i, "n" + std::to_string((change[6] + i) % 5), change[7] % 2});
  }
  for (int i = 0; i < change[2] % 3; ++i) {
    gang.spares.push_back({"n" + std::to_string((change[7] + i) % 5), change[6] % 2});
  }
  return gang;
}

NodeState NodeOf(const Change& change) {
  NodeState state;
  state.name = "n" + std::to_string(change[1] % 5);
  state.allocatable[kGpuSlot] = change[2];
  state.usable = change[3] != 0;
  state.product = change[4] < 4 ? "H100" : "H200";
  state.node_class = static_cast<uint32_t>(change[5]);
  return state;
}

void ApplyTo(LedgerModel& model, Ledger& ledger, const Change& change) {
  switch (change[0]) {
    case 0:
    case 1:
    case 2: {
      const PodState pod = PodOf(change);
      model.pods[pod.uid] = pod;
      ledger.PutPod(pod);
      break;
    }
    case 3: {
      const std::string uid = PodOf(change).uid;
      model.pods.erase(uid);
      ledger.RemovePod(uid);
      break;
    }
    case 4: {
      const Gang gang = GangOf(change);
      model.gangs[gang.uid] = gang;
      ledger.PutGang(gang);
      break;
    }
    case 5: {
      const std::string uid = GangOf(change).uid;
      model.gangs.erase(uid);
      ledger.RemoveGang(uid);
      break;
    }
    case 6: {
      const NodeState state = NodeOf(change);
      if (change[7] == 0) {
        model.nodes.erase(state.name);
        ledger.RemoveNode(state.name);
      } else {
        model.nodes[state.name] = state;
        ledger.SetNode(state);
      }
      break;
    }
    default:
      model.cluster.clear();
      for (int i = 0; i < 5; ++i) {
        if (change[1 + static_cast<size_t>(i)] > 1) {
          model.cluster.push_back("n" + std::to_string(i));
        }
      }
      model.border = change[6];
      ledger.SetCluster(ClusterOf(model.cluster, model.border));
  }
}

void CompareWithModel(const LedgerModel& model, const Ledger& ledger) {
  const absl::Status sound = ledger.Verify();
  RC_ASSERT(sound.ok());
  RC_ASSERT(ledger.node_count() == model.cluster.size());
  const std::shared_ptr<const LedgerView> view = ledger.View();
  for (const std::string& name : model.cluster) {
    const NodeId node = ledger.cluster().FindNode(name);
    const auto known = model.nodes.find(name);
    const int64_t used = model.UsedGpus(name);
    const int64_t allocatable =
        known == model.nodes.end() ? 0 : known->second.allocatable[kGpuSlot];
    RC_ASSERT(ledger.used(node)[kGpuSlot] == used);
    RC_ASSERT(ledger.Free(node)[kGpuSlot] == allocatable - used);
    RC_ASSERT(ledger.FreeColumn(kGpuSlot)[node.index()] == allocatable - used);
    RC_ASSERT(view->nodes[node.index()].used[kGpuSlot] == used);
    RC_ASSERT(view->nodes[node.index()].usable ==
              (known != model.nodes.end() && known->second.usable));
  }
  RC_ASSERT(view->gangs.size() == model.gangs.size());
  std::map<std::string, int64_t> gpus_of_queue;
  for (const auto& [uid, gang] : model.gangs) {
    const std::shared_ptr<const GangView> shown = ledger.FindGang(uid);
    RC_ASSERT(shown != nullptr);
    RC_ASSERT(view->gangs.find(uid)->second == shown);
    RC_ASSERT(shown->blocks.size() == gang.blocks.size());
    for (const RankBlock& block : gang.blocks) {
      const GangBlockView* found = shown->FindBlock(block.first_rank);
      RC_ASSERT(found != nullptr);
      RC_ASSERT(found->node == block.node);
      const PodState* pod = model.PresentPod(uid, block);
      RC_ASSERT(found->pod_uid == (pod == nullptr ? "" : pod->uid));
      const BlockState state = pod == nullptr      ? BlockState::kReserved
                               : pod->node.empty() ? BlockState::kPinned
                                                   : BlockState::kBound;
      RC_ASSERT(found->state == state);
      const int64_t asked = pod == nullptr ? 0 : pod->requests[kGpuSlot];
      gpus_of_queue[gang.queue] += std::max({gang.request[kGpuSlot], asked, int64_t{0}});
    }
    RC_ASSERT(shown->spares == gang.spares);
    gpus_of_queue[gang.queue] +=
        static_cast<int64_t>(gang.spares.size()) * std::max<int64_t>(gang.request[kGpuSlot], 0);
  }
  for (const char* queue : {"q0", "q1"}) {
    RC_ASSERT(ledger.GpusOfQueue(queue) == gpus_of_queue[queue]);
  }
}

// What the versions of the ledger promise about the change that was just made.
struct RoomBefore {
  explicit RoomBefore(const Ledger& ledger)
      : version(ledger.version()),
        node_version(ledger.node_version()),
        room_version(ledger.room_version()),
        digest(ledger.Digest()),
        free(ledger.FreeColumn(kGpuSlot).begin(), ledger.FreeColumn(kGpuSlot).end()),
        placeable(ledger.PlaceableColumn().begin(), ledger.PlaceableColumn().end()) {}

  void Compare(const Ledger& ledger) const {
    RC_ASSERT(ledger.version() != version || ledger.Digest() == digest);
    if (ledger.node_version() == node_version) {
      RC_ASSERT(std::equal(placeable.begin(), placeable.end(), ledger.PlaceableColumn().begin(),
                           ledger.PlaceableColumn().end()));
    }
    if (ledger.room_version() == room_version) {
      RC_ASSERT(ledger.node_version() == node_version);
      const std::span<const int64_t> now = ledger.FreeColumn(kGpuSlot);
      RC_ASSERT(std::equal(now.begin(), now.end(), free.begin(), free.end(), std::less_equal<>()));
    }
  }

  uint64_t version;
  uint64_t node_version;
  uint64_t room_version;
  uint64_t digest;
  std::vector<int64_t> free;
  std::vector<uint8_t> placeable;
};

// The same content, told once, in an order drawn from the seed.
uint64_t DigestOfFresh(const LedgerModel& model, uint64_t seed) {
  ResourceTable table;
  const bool named = table.SlotOf("nvidia.com/gpu").has_value();
  RC_ASSERT(named);
  Ledger ledger(table);
  std::vector<std::function<void()>> calls;
  calls.push_back([&] { ledger.SetCluster(ClusterOf(model.cluster, model.border)); });
  for (const auto& [name, state] : model.nodes) {
    calls.push_back([&ledger, &node = state] { ledger.SetNode(node); });
  }
  for (const auto& [uid, state] : model.pods) {
    calls.push_back([&ledger, &pod = state] { ledger.PutPod(pod); });
  }
  for (const auto& [uid, state] : model.gangs) {
    calls.push_back([&ledger, &gang = state] { ledger.PutGang(gang); });
  }
  base::Rng rng(seed);
  rng.Shuffle(calls);
  for (const auto& call : calls) {
    call();
  }
  return ledger.Digest();
}

TEST(LedgerProperty, AgreesWithAModelAfterEveryChangeAndForgetsTheOrder) {
  EXPECT_TRUE(rc::check([] {
    const auto changes = *rc::gen::container<std::vector<Change>>(
        rc::gen::container<Change>(8, rc::gen::inRange(0, 8)));
    ResourceTable table;
    const bool named = table.SlotOf("nvidia.com/gpu") == kGpuSlot;
    RC_ASSERT(named);
    LedgerModel model;
    Ledger ledger(table);
    model.cluster = {"n0", "n1", "n2", "n3"};
    ledger.SetCluster(ClusterOf(model.cluster, model.border));
    for (const Change& change : changes) {
      const RoomBefore before(ledger);
      ApplyTo(model, ledger, change);
      before.Compare(ledger);
      CompareWithModel(model, ledger);
    }
    RC_ASSERT(DigestOfFresh(model, *rc::gen::arbitrary<uint64_t>()) == ledger.Digest());
  }));
}

// Digest must notice: any single change to what it covers.
TEST(LedgerProperty, DigestSeesEveryField) {
  const auto digest = [](const std::function<void(NodeState&, PodState&, Gang&)>& change) {
    ResourceTable table;
    EXPECT_EQ(table.SlotOf("nvidia.com/gpu"), kGpuSlot);
    Ledger ledger(table);
    ledger.SetCluster(ClusterOf({"n1", "n2"}, 2));
    NodeState node = NodeOf({6, 1, 4, 1, 1, 1, 1, 1});
    PodState pod = PodOf({0, 1, 1, 1, 4, 0, 2, 0});
    Gang gang = GangOf({4, 0, 0, 1, 3, 2, 1, 0});
    change(node, pod, gang);
    ledger.SetNode(node);
    ledger.PutPod(pod);
    ledger.PutGang(gang);
    return ledger.Digest();
  };
  const uint64_t plain = digest([](NodeState&, PodState&, Gang&) {});
  const std::vector<std::function<void(NodeState&, PodState&, Gang&)>> changes = {
      [](NodeState& node, PodState&, Gang&) { node.allocatable[kGpuSlot] = 5; },
      [](NodeState& node, PodState&, Gang&) { node.usable = false; },
      [](NodeState& node, PodState&, Gang&) { node.product = "B200"; },
      [](NodeState& node, PodState&, Gang&) { node.node_class = 9; },
      [](NodeState& node, PodState&, Gang&) { node.name = "n2"; },
      [](NodeState&, PodState& pod, Gang&) { pod.uid = "other"; },
      [](NodeState&, PodState& pod, Gang&) { pod.node = "n2"; },
      [](NodeState&, PodState& pod, Gang&) { pod.first_rank = 2; },
      [](NodeState&, PodState& pod, Gang&) { pod.epoch = 7; },
      [](NodeState&, PodState& pod, Gang&) { pod.deleting = true; },
      [](NodeState&, PodState& pod, Gang&) { pod.ended = true; },
      [](NodeState&, PodState& pod, Gang&) { pod.requests[kGpuSlot] = 7; },
      [](NodeState&, PodState&, Gang& gang) { gang.uid = "other"; },
      [](NodeState&, PodState&, Gang& gang) { gang.queue = "other"; },
      [](NodeState&, PodState&, Gang& gang) { gang.epoch = 9; },
      [](NodeState&, PodState&, Gang& gang) { gang.request[kGpuSlot] = 9; },
      [](NodeState&, PodState&, Gang& gang) { gang.blocks[0].node = "n9"; },
      [](NodeState&, PodState&, Gang& gang) { gang.blocks[1].epoch = 9; },
      [](NodeState&, PodState&, Gang& gang) { gang.blocks.pop_back(); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    EXPECT_NE(digest(changes[i]), plain) << "change " << i;
  }
}

// Place, then PutGang, in any order with foreign pods and departures: no GPU is held twice.
TEST(LedgerProperty, NoGpuIsGivenOutTwice) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    base::Rng rng(seed);
    TestCluster cluster({"node", "leaf", "cluster"}, 8);
    for (int i = 0; i < 12; ++i) {
      cluster.AddNode("n" + std::to_string(i), {"L" + std::to_string(i / 4)});
    }
    cluster.Build();
    std::vector<std::string> running;
    for (int step = 0; step < 60; ++step) {
      if (!running.empty() && rng.Chance(0.4)) {
        const size_t index = rng.Below(running.size());
        cluster.ledger().RemoveGang(running[index]);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(index));
      } else {
        PlacementRequest request =
            cluster.Request(1 + static_cast<int64_t>(rng.Below(6)), int64_t{1} << rng.Below(4));
        request.gang_uid = "g" + std::to_string(step);
        const PlacementOutcome outcome = Place(request, cluster.ledger());
        if (const auto* placed = std::get_if<Placed>(&outcome)) {
          cluster.Book(request.gang_uid, request, *placed);
          running.push_back(request.gang_uid);
        }
      }
      for (size_t node = 0; node < cluster.ledger().node_count(); ++node) {
        ASSERT_GE(cluster.ledger().Free(NodeId(node))[cluster.gpu_slot()], 0);
      }
      ASSERT_TRUE(cluster.ledger().Verify().ok()) << cluster.ledger().Verify();
    }
  }
}

}  // namespace
}  // namespace asterism::scheduler
