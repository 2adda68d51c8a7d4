// File: scheduler/exact_search.h
//
// Splits blocks over the domains below one domain at the least cost there is, or declines when
// that is too much work. Internal to placement.
//
//   exact.Load(tree, shape, capacity, rooms);
//   exact.SetOrder({}, level);                      // fewest domains, the outermost level first
//   if (!exact.Solve(level, domain, units, tail, quota)) ...   // use a heuristic
//
// The cost of a split is the number of domains it opens at each level, compared level by level in
// a given order, then the room of all opened domains: what is left over counts as waste. Domains
// that hold pods of the gang already are open. Equal costs fall to the lower ids.
//
// Method: dynamic programming over the children of each domain (a knapsack a domain), from the
// nodes up. Domains that look alike (same room and capacity all the way down) share one table, and
// a parent looks at no more of them than a best split can use: a large cluster has few kinds.
//
// Thread-safety: none; buffers are kept. Cost: at most kWorkMax inner steps of some nanoseconds,
// and a hash for each domain below.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "scheduler/domain_quota.h"
#include "scheduler/gang_shape.h"
#include "scheduler/placement_tree.h"
#include "scheduler/unit_capacity.h"

namespace asterism::scheduler {

using DomainRooms = std::array<std::vector<int64_t>, kTreeLevelsMax>;

class ExactSearch {
 public:
  static constexpr int64_t kWorkMax = 8'000;

  // All must outlive the use of this object.
  void Load(const PlacementTree& tree, const GangShape& shape, const UnitCapacity& capacity,
            const DomainRooms& rooms);

  // Levels below `top` count in this order: those of `first`, then the others from the outermost.
  void SetOrder(std::span<const size_t> first, size_t top);
  void set_work_max(int64_t work_max) { work_max_ = work_max; }

  // Splits `units` blocks of `level` - 1, and its tail, over the children of `domain` and on down
  // to the nodes. False: too much work, `quota` is unchanged. They must fit. `level` >= 1.
  bool Solve(size_t level, uint32_t domain, int64_t units, bool tail, DomainQuota& quota);

 private:
  __extension__ using Counts = unsigned __int128;
  struct Cost {
    Counts counts = 0;  // domains opened, a group of bits for each level
    int64_t waste = 0;
    bool operator<(const Cost& other) const {
      return counts != other.counts ? counts < other.counts : waste < other.waste;
    }
    Cost operator+(const Cost& other) const { return {counts + other.counts, waste + other.waste}; }
  };
  // A child that may take part of its parent's blocks.
  struct Item {
    uint32_t domain = 0;
    uint64_t look = 0;
    int64_t full = -1;  // most blocks without and with the tail; -1: not at all
    int64_t tail = -1;
    size_t table = 0;  // level >= 1
    Cost open;
    int64_t taken = 0;
    bool takes_tail = false;
  };
  // Of one kind of domain: how to split any number of units over its children.
  struct Table {
    uint32_t domain = 0;
    int64_t units = 0;       // most
    size_t tails = 1;        // 2: with and without the inner tail
    size_t items_begin = 0;  // into items_
    size_t items_end = 0;
    size_t choices = 0;             // into choices_: [item][units][tail]
    std::array<size_t, 2> costs{};  // into costs_, by tail of this level: [blocks]
  };
  struct Choice {
    uint32_t taken = 0;
    bool takes_tail = false;
  };

  void ReserveBuffers();
  void HashLooks(size_t level, uint32_t domain);
  uint64_t LookOf(size_t level, uint32_t domain, uint64_t children) const;
  bool SurelyTooMuchWork(size_t level, uint32_t domain, int64_t units);
  int64_t UsefulCopies(int64_t full, int64_t units, bool tail) const;
  // Returns the index of the table, or kTooMuchWork.
  size_t FindOrBuild(size_t level, const Item& item);
  size_t Build(size_t level, uint32_t domain, int64_t units, bool tail);
  void AddItems(size_t level, Table& table);
  bool FillKnapsack(size_t level, const Table& table);
  Cost InnerCost(size_t level, const Item& item, int64_t taken, bool takes_tail) const;
  int64_t UnitsFor(size_t level, uint32_t domain, int64_t blocks, bool tail) const;
  bool InnerTail(size_t level, uint32_t domain, bool tail) const;
  void Apply(size_t level, uint32_t domain, size_t table, int64_t units, bool tail,
             DomainQuota& quota);
  void MatchItems(size_t level, uint32_t domain, const Table& table);

  static constexpr size_t kTooMuchWork = static_cast<size_t>(-1);

  const PlacementTree* tree_ = nullptr;
  const GangShape* shape_ = nullptr;
  const UnitCapacity* capacity_ = nullptr;
  const DomainRooms* rooms_ = nullptr;
  int64_t work_max_ = kWorkMax;
  int64_t work_ = 0;
  bool outermost_first_ = true;
  bool counts_fit_ = false;
  std::array<Counts, kTreeLevelsMax> one_{};  // what a domain of a level counts
  std::array<std::vector<uint64_t>, kTreeLevelsMax> looks_;
  std::vector<Table> tables_;
  std::vector<Item> items_;
  std::vector<Choice> choices_;
  std::vector<Cost> costs_;
  std::vector<Cost> best_;  // the knapsack that is filled now: [units][tail]
  std::vector<Cost> next_;
  absl::flat_hash_map<uint64_t, size_t> table_by_look_;
  absl::flat_hash_map<uint64_t, int64_t> copies_;
  std::vector<int64_t> seen_;
};

}  // namespace asterism::scheduler
