// File: test/scheduler/gang_life.h
//
// One small cluster on which gangs arrive, are placed, bound, moved, restarted and cancelled, nodes
// are drained and lose GPUs, and foreign pods come and go: random steps from one seed. After each
// step what it touched is compared with a model of its own, which knows no code of the ledger.
//
//   GangLife life(seed);
//   for (int i = 0; i < 1000; ++i) {
//     std::string wrong = life.Step();        // empty, or what is wrong
//   }
//   life.CheckRebuild();                      // the same bytes from what the API server would tell
//
// Thread-safety: none. Cost: some microseconds a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "scheduler/ledger.h"
#include "scheduler/placement.h"

namespace asterism::scheduler {

class GangLife {
 public:
  explicit GangLife(uint64_t seed);

  // One random change. Returns what is wrong then, or nothing.
  std::string Step();
  // Recounts all, and books everything anew in another order. Returns what is wrong, or nothing.
  std::string CheckRebuild();
  // Of all decisions so far: the same seed gives the same.
  uint64_t hash() const { return hash_; }
  size_t placed() const { return placed_; }
  size_t refused() const { return refused_; }
  size_t moved() const { return moved_; }
  size_t spares() const { return spares_; }

 private:
  struct LivePod {
    PodState state;
    bool present = false;  // of its block; else it holds for itself while it has a node
  };
  struct LiveGang {
    PlacementRequest request;
    std::string product;
    int64_t epoch = 0;
    std::vector<RankBlock> blocks;  // by pod
    std::vector<Spare> spares;
  };
  // GPUs of a node.
  struct NodeUse {
    int64_t blocks = 0;   // of all gangs, spares included
    int64_t leaving = 0;  // pods that are not the present ones of their blocks
    int64_t foreign = 0;
    int64_t sum() const { return blocks + leaving + foreign; }
  };

  void DrawCluster();
  PlacementRequest DrawRequest(const std::string& uid);
  ResourceVector Amounts(int64_t gpus) const;
  int64_t GpusOf(const PlacementRequest& request) const { return request.request[gpu_slot_]; }

  std::string Arrive();
  std::string Restart();
  std::string Move();
  std::string SparesChange();
  std::string Cancel();
  std::string PodSeen();
  std::string PodBinds();
  std::string PodEnds(bool present);
  std::string NodeChanges();
  std::string ForeignComes();
  std::string ForeignGoes();

  // Judges what Place says, and books it where it found a place.
  std::string Decide(const PlacementRequest& request, int64_t epoch);
  std::string CheckPlaced(const PlacementRequest& request, const Placed& placed) const;
  std::string CheckSpares(const PlacementRequest& request, const Placed& placed) const;
  std::string CheckRefused(const PlacementRequest& request) const;
  bool HasRoom(const PlacementRequest& request, const std::string& product, bool empty) const;
  std::string CheckNode(size_t node) const;
  std::string CheckGang(const std::string& uid) const;
  std::string CheckNodesOf(const LiveGang& gang) const;

  void Book(const PlacementRequest& request, const Placed& placed, int64_t epoch);
  void Unbook(const std::string& uid);
  Gang LedgerGang(const std::string& uid, const LiveGang& gang) const;
  std::map<std::string, LiveGang>::iterator AnyGang();
  std::map<std::string, LivePod>::iterator AnyPod(bool bound, bool present);
  size_t IndexOf(const std::string& node) const {
    return ledger_->cluster().FindNode(node).index();
  }

  base::Rng rng_;
  ResourceTable table_;
  size_t gpu_slot_;
  std::unique_ptr<Ledger> ledger_;
  std::vector<NodeState> nodes_;  // by NodeId
  std::vector<NodeUse> use_;      // by NodeId
  std::map<std::string, LiveGang> gangs_;
  std::map<std::string, LivePod> pods_;  // of gangs, by uid
  std::vector<PodState> foreign_;
  size_t next_uid_ = 0;
  PlacementOutcome outcome_;
  uint64_t hash_;
  size_t placed_ = 0;
  size_t refused_ = 0;
  size_t moved_ = 0;
  size_t spares_ = 0;  // decided
};

}  // namespace asterism::scheduler
