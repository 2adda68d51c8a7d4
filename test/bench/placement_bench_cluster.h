// File: test/bench/placement_bench_cluster.h
//
// A cluster of 8-GPU nodes with a ledger, filled and emptied by gangs, for the benchmarks of
// placement.
//
//   BenchCluster cluster(1280, DefaultLevels());
//   cluster.Crowd(80, rng);
//   Place(cluster.Request("gang", 16, 8), cluster.ledger(), outcome);
//   cluster.Churn(rng);                      // as full as before, but not the same gangs
//
// Thread-safety: none. Cost: building it takes some milliseconds for a thousand nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "scheduler/ledger.h"
#include "scheduler/placement.h"

namespace asterism::scheduler {

inline constexpr int64_t kGpusOfNode = 8;

// A level between the node and the cluster, with domains of equal size.
struct BenchLevel {
  std::string name;
  size_t nodes = 1;  // of a domain
};

std::vector<BenchLevel> DefaultLevels();  // supernodes of 4 nodes, racks of 16 supernodes

class BenchCluster {
 public:
  BenchCluster(size_t nodes, const std::vector<BenchLevel>& levels);

  static std::string NodeName(size_t index);

  // A gang of `pods` pods with `gpus` GPUs each, and CPU and memory in proportion.
  PlacementRequest Request(const std::string& uid, int64_t pods, int64_t gpus) const;
  void Book(const PlacementRequest& request, const Placed& placed);
  void Release(const std::string& uid);

  // Fills the whole cluster with gangs, then lets random ones go until `percent` is held: what is
  // free is scattered as after weeks of work.
  void Crowd(int percent, base::Rng& rng);
  // One random gang goes, and others come until as much is held as Crowd left, or as was held at
  // the first call.
  void Churn(base::Rng& rng);

  int64_t gpus() const { return static_cast<int64_t>(ledger_.node_count()) * kGpusOfNode; }
  int64_t held_gpus() const { return held_; }
  Ledger& ledger() { return ledger_; }
  const Ledger& ledger() const { return ledger_; }

 private:
  struct Held {
    std::string uid;
    int64_t gpus = 0;
  };

  bool AddRandomGang(base::Rng& rng);  // false: it did not fit
  void ReleaseAt(size_t index);

  ResourceTable table_;
  Ledger ledger_;
  size_t gpu_slot_;
  std::vector<Held> gangs_;
  int64_t held_ = 0;     // GPUs of gangs_
  int64_t wanted_ = -1;  // what Churn keeps up; -1: not known yet
  size_t next_gang_ = 0;
  PlacementOutcome outcome_;
};

}  // namespace asterism::scheduler
