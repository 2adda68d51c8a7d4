// File: planner/rank_map.h
//
// Which rank has which place in a plan: coordinates, the groups that exchange with each other, and
// the ranks that hold the same bytes.
//
//   const RankMap map(plan, RankOrder::kDataBeforePipeline);
//   map.CoordinatesOf(37).tensor, map.RankOf(coordinates)
//   map.GroupOf(GroupKind::kTensor, 37)             // {32, 33, ..., 39}
//
// Ranks count tensor first, then context, data and pipeline (Megatron's tp-cp-ep-dp-pp, DeepSpeed's
// pipe-data-model, the mesh pp, dp_replicate, dp_shard, cp, tp of torchtitan and Accelerate, all
// slowest last here); with kPipelineBeforeData data is slowest (--use-tp-pp-dp-mapping). Experts
// count the same ranks as expert_tensor, expert, expert_data, with the same pipeline. Replicas of
// the shards (HSDP, optimizer instances) are the slowest part of data.
//
// Preconditions: the degrees multiply to the ranks, for experts too (world.dense, world.expert).
// Thread-safety: a value. Cost: O(1); a group O(its ranks).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "planner/parallel_plan.h"

namespace asterism::planner {

enum class RankOrder { kDataBeforePipeline, kPipelineBeforeData };

enum class GroupKind {
  kTensor,
  kContext,
  kPipeline,
  kData,    // same tensor, context and pipeline place
  kShard,   // data and context together: gradients of dense parameters are reduced over it
  kExpert,  // all-to-all of tokens
  kExpertTensor,
  kExpertData,  // gradients of experts
};
inline constexpr std::array<GroupKind, 8> kGroupKinds = {
    GroupKind::kTensor, GroupKind::kContext, GroupKind::kPipeline,     GroupKind::kData,
    GroupKind::kShard,  GroupKind::kExpert,  GroupKind::kExpertTensor, GroupKind::kExpertData};

std::string_view ToString(GroupKind kind);

struct RankCoordinates {
  int64_t tensor = 0;
  int64_t context = 0;
  int64_t data = 0;
  int64_t pipeline = 0;
  int64_t expert = 0;
  int64_t expert_tensor = 0;
  int64_t expert_data = 0;

  friend bool operator==(const RankCoordinates&, const RankCoordinates&) = default;
};

class RankMap {
 public:
  RankMap(const ParallelPlan& plan, RankOrder order) : plan_(plan), order_(order) {}

  int64_t ranks() const { return plan_.degrees.Gpus(); }
  RankCoordinates CoordinatesOf(int64_t rank) const;
  // By the dense four.
  int64_t RankOf(const RankCoordinates& coordinates) const;

  int64_t SizeOf(GroupKind kind) const;
  int64_t GroupsOf(GroupKind kind) const { return ranks() / SizeOf(kind); }
  // Ascending.
  std::vector<int64_t> GroupOf(GroupKind kind, int64_t rank) const;
  // From one rank of a group to the next; the largest where they differ.
  int64_t StrideOf(GroupKind kind) const;

  // Ranks, with this one, that hold the same optimizer state of dense parameters: one means that
  // it exists once and is lost with its GPU.
  std::vector<int64_t> SameStates(int64_t rank) const;
  // The same of the weights.
  std::vector<int64_t> SameWeights(int64_t rank) const;

 private:
  // Ranks between one place of the pipeline or of data and the next.
  int64_t DataStride() const;
  int64_t PipelineStride() const;
  // Ranks of the shard group that differ in the part that a copy has to itself.
  std::vector<int64_t> Copies(int64_t rank, int64_t shards) const;

  ParallelPlan plan_;
  RankOrder order_;
};

}  // namespace asterism::planner
