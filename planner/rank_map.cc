#include "planner/rank_map.h"

#include <algorithm>

namespace asterism::planner {

std::string_view ToString(GroupKind kind) {
  switch (kind) {
    case GroupKind::kTensor:
      return "tensor";
    case GroupKind::kContext:
      return "context";
    case GroupKind::kPipeline:
      return "pipeline";
    case GroupKind::kData:
      return "data";
    case GroupKind::kShard:
      return "shard";
    case GroupKind::kExpert:
      return "expert";
    case GroupKind::kExpertTensor:
      return "expert_tensor";
    case GroupKind::kExpertData:
      return "expert_data";
  }
  return "";
}

int64_t RankMap::DataStride() const {
  const Degrees& d = plan_.degrees;
  return d.tensor * d.context * (order_ == RankOrder::kDataBeforePipeline ? 1 : d.pipeline);
}

int64_t RankMap::PipelineStride() const {
  const Degrees& d = plan_.degrees;
  return d.tensor * d.context * (order_ == RankOrder::kDataBeforePipeline ? d.data : 1);
}

RankCoordinates RankMap::CoordinatesOf(int64_t rank) const {
  const Degrees& d = plan_.degrees;
  RankCoordinates at;
  at.tensor = rank % d.tensor;
  at.context = rank / d.tensor % d.context;
  at.data = rank / DataStride() % d.data;
  at.pipeline = rank / PipelineStride() % d.pipeline;
  // Experts count the ranks of one stage, in the same order.
  const int64_t inner = d.tensor * d.context;
  const int64_t in_stage = at.data * inner + rank % inner;
  at.expert_tensor = in_stage % d.expert_tensor;
  at.expert = in_stage / d.expert_tensor % d.expert;
  at.expert_data = in_stage / (d.expert_tensor * d.expert);
  return at;
}

int64_t RankMap::RankOf(const RankCoordinates& at) const {
  return at.tensor + at.context * plan_.degrees.tensor + at.data * DataStride() +
         at.pipeline * PipelineStride();
}

int64_t RankMap::SizeOf(GroupKind kind) const {
  const Degrees& d = plan_.degrees;
  switch (kind) {
    case GroupKind::kTensor:
      return d.tensor;
    case GroupKind::kContext:
      return d.context;
    case GroupKind::kPipeline:
      return d.pipeline;
    case GroupKind::kData:
      return d.data;
    case GroupKind::kShard:
      return d.DenseReplicas();
    case GroupKind::kExpert:
      return d.expert;
    case GroupKind::kExpertTensor:
      return d.expert_tensor;
    case GroupKind::kExpertData:
      return d.ExpertReplicas();
  }
  return 1;
}

std::vector<int64_t> RankMap::GroupOf(GroupKind kind, int64_t rank) const {
  const Degrees& d = plan_.degrees;
  const RankCoordinates at = CoordinatesOf(rank);
  const int64_t inner = d.tensor * d.context;
  const auto of_stage = [&](int64_t in_stage) {
    return in_stage % inner + in_stage / inner * DataStride() + at.pipeline * PipelineStride();
  };
  std::vector<int64_t> group;
  const int64_t size = SizeOf(kind);
  group.reserve(static_cast<size_t>(size));
  for (int64_t place = 0; place < size; ++place) {
    RankCoordinates member = at;
    switch (kind) {
      case GroupKind::kTensor:
        member.tensor = place;
        break;
      case GroupKind::kContext:
        member.context = place;
        break;
      case GroupKind::kPipeline:
        member.pipeline = place;
        break;
      case GroupKind::kData:
        member.data = place;
        break;
      case GroupKind::kShard:
        member.context = place % d.context;
        member.data = place / d.context;
        break;
      case GroupKind::kExpert:
        group.push_back(
            of_stage(at.expert_tensor + d.expert_tensor * (place + d.expert * at.expert_data)));
        continue;
      case GroupKind::kExpertTensor:
        group.push_back(
            of_stage(place + d.expert_tensor * (at.expert + d.expert * at.expert_data)));
        continue;
      case GroupKind::kExpertData:
        group.push_back(
            of_stage(at.expert_tensor + d.expert_tensor * (at.expert + d.expert * place)));
        continue;
    }
    group.push_back(RankOf(member));
  }
  return group;
}

int64_t RankMap::StrideOf(GroupKind kind) const {
  const std::vector<int64_t> group = GroupOf(kind, 0);
  int64_t stride = 1;
  for (size_t index = 1; index < group.size(); ++index) {
    stride = std::max(stride, group[index] - group[index - 1]);
  }
  return stride;
}

std::vector<int64_t> RankMap::Copies(int64_t rank, int64_t shards) const {
  const std::vector<int64_t> group = GroupOf(GroupKind::kShard, rank);
  const auto place =
      static_cast<int64_t>(std::find(group.begin(), group.end(), rank) - group.begin());
  std::vector<int64_t> same;
  for (auto at = static_cast<size_t>(place % shards); at < group.size();
       at += static_cast<size_t>(shards)) {
    same.push_back(group[at]);
  }
  return same;
}

std::vector<int64_t> RankMap::SameStates(int64_t rank) const {
  const int64_t group = plan_.degrees.DenseReplicas();
  return Copies(rank, plan_.sharding == Sharding::kNone ? 1 : group / plan_.replicas);
}

std::vector<int64_t> RankMap::SameWeights(int64_t rank) const {
  const int64_t group = plan_.degrees.DenseReplicas();
  return Copies(rank, plan_.sharding == Sharding::kFull ? group / plan_.replicas : 1);
}

}  // namespace asterism::planner
