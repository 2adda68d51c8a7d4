// File: scheduler/rank_order.h
//
// Gives ranks to the chosen domains, so that near ranks are near nodes. Internal to placement.
//
//   RankOrder order;
//   order.Assign(tree, shape, capacity, quota, nodes);   // nodes[pod] = node, `quota` is used up
//
// Ranks walk through the domains in topology order, one domain after the other at every level, the
// tail of the gang last: a ring over the ranks crosses a level once for each domain used there,
// which is the least possible. Where pods stay, blocks that are free to choose follow the block
// before them, else join the next one that stays.
//
// Thread-safety: none; buffers are kept. Cost: O(pods) and the children of the domains that are
// used; where pods stay O(domains + pods x levels).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "scheduler/domain_quota.h"
#include "scheduler/gang_shape.h"
#include "scheduler/placement_tree.h"
#include "scheduler/unit_capacity.h"

namespace asterism::scheduler {

class RankOrder {
 public:
  void Assign(const PlacementTree& tree, const GangShape& shape, const UnitCapacity& capacity,
              DomainQuota& quota, std::vector<NodeId>& nodes);

 private:
  // Of a gang none of whose pods stays: a domain's ranks are one run.
  void AssignDomain(const PlacementTree& tree, const GangShape& shape, const DomainQuota& quota,
                    size_t level, uint32_t domain, std::vector<NodeId>& nodes);
  void AssignLevel(const PlacementTree& tree, const GangShape& shape, const UnitCapacity& capacity,
                   DomainQuota& quota, size_t level);
  uint32_t NextChild(const PlacementTree& tree, DomainQuota& quota, size_t level, uint32_t domain);

  // By block of a level: the domain of that level which it lives in.
  std::array<std::vector<uint32_t>, kTreeLevelsMax> home_;
  // For the level that is assigned now.
  std::vector<uint32_t> cursor_;    // next child to look at, by domain
  std::vector<uint32_t> upcoming_;  // the next anchored home in the same parent block, by block
};

}  // namespace asterism::scheduler
