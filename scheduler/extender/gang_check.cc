#include "scheduler/extender/gang_check.h"

#include <array>
#include <optional>
#include <utility>

#include "base/cut_text.h"
#include "fmt/format.h"
#include "scheduler/extender/node_score.h"
#include "scheduler/gang_pod.h"

namespace asterism::scheduler::extender {
namespace {

constexpr size_t kForeignTextMax = 253;  // of a text that came from outside, in a message

std::string JobOf(const PodQuestion& pod) {
  return fmt::format("{}/{}", base::CutText(pod.namespace_name, kForeignTextMax),
                     base::CutText(pod.job, kForeignTextMax));
}

GangAnswer Refuse(GangRefusal refusal, std::string message) {
  return {.refusal = refusal, .message = std::move(message)};
}

std::string HolderMessage(const LedgerView& view, const NodeView& node, const SlotAmount& wanted,
                          const std::string& job) {
  const int64_t used = node.used[wanted.slot];
  const int64_t allocatable = node.allocatable[wanted.slot];
  // The block's own share is in `used`; what is over the node's amount is short.
  return fmt::format(
      "node {} has another holder: {} allocatable {}, held by others {}, this pod needs {}: {} "
      "short (job {})",
      node.name, view.resource_names[wanted.slot], allocatable, used - wanted.amount, wanted.amount,
      used - allocatable, job);
}

// The first resource of the pod of which more is held than the node has, this block included.
std::optional<SlotAmount> Overcommitted(const NodeView& node, const PodDemand& demand) {
  const auto over = [&](const SlotAmount& wanted) {
    return node.used[wanted.slot] > node.allocatable[wanted.slot];
  };
  if (demand.gpus.has_value() && over(*demand.gpus)) {
    return demand.gpus;
  }
  for (const SlotAmount& wanted : demand.amounts()) {
    if (over(wanted)) {
      return wanted;
    }
  }
  return std::nullopt;
}

// Labels can be forged by anybody who may create a pod anywhere; this name in this namespace only
// by those who may act for the job.
bool IsTheGangsPod(const GangView& gang, const PodQuestion& pod, int64_t first_rank,
                   int64_t epoch) {
  const std::string_view key = gang.name;
  const size_t slash = key.find('/');
  return slash != std::string_view::npos && pod.namespace_name == key.substr(0, slash) &&
         pod.name == GangPodName(key.substr(slash + 1), gang.uid, first_rank, epoch);
}

}  // namespace

std::string_view GangRefusalName(GangRefusal refusal) {
  static constexpr std::array<std::string_view, kGangRefusals> kNames = {
      "none", "not_placed", "moved", "other_node", "foreign_holder"};
  return kNames[static_cast<size_t>(refusal)];
}

GangAnswer CheckGangPod(const LedgerView& view, const NodeTable& table, const PodQuestion& pod,
                        std::span<const std::string> gpu_resources) {
  const std::string job = JobOf(pod);
  const auto found = view.gangs.find(pod.job_uid);
  const std::optional<RankRange> ranks = ParseRanks(pod.ranks);
  const std::optional<int64_t> epoch = ParseCount(pod.epoch);
  if (found == view.gangs.end()) {
    return Refuse(GangRefusal::kNotPlaced, fmt::format("gang not placed (job {})", job));
  }
  const GangView& gang = *found->second;
  if (!ranks.has_value() || !epoch.has_value()) {
    return Refuse(
        GangRefusal::kNotPlaced,
        fmt::format("gang not placed: the pod has no usable annotations asterism.dev/ranks "
                    "(first-last) and asterism.dev/epoch (job {})",
                    gang.name));
  }
  const GangBlockView* const block = gang.FindBlock(ranks->first);
  if (block == nullptr) {
    return Refuse(GangRefusal::kNotPlaced,
                  fmt::format("gang not placed: no rank block begins with rank {} (job {})",
                              ranks->first, gang.name));
  }
  if (block->epoch != *epoch) {
    return Refuse(GangRefusal::kMoved,
                  fmt::format("rank block {} moved in epoch {}, this pod is of epoch {} (job {})",
                              ranks->first, block->epoch, *epoch, gang.name));
  }
  if (!IsTheGangsPod(gang, pod, ranks->first, *epoch)) {
    return Refuse(
        GangRefusal::kNotPlaced,
        fmt::format("gang not placed: the pod of rank block {} of job {} has another name "
                    "or namespace; only Asterism creates the pods of a gang",
                    ranks->first, gang.name));
  }
  GangAnswer answer{.node = table.Find(block->node), .first_rank = ranks->first};
  if (answer.node == kNoNode) {
    answer.refusal = GangRefusal::kOtherNode;
    answer.message =
        fmt::format("rank block {} is placed on node {}, which has left the cluster (job {})",
                    ranks->first, block->node, gang.name);
    return answer;
  }
  const NodeView& node = view.nodes[answer.node];
  const PodDemand demand = DemandOf(pod.requests, view, gpu_resources);
  if (const std::optional<SlotAmount> wanted = Overcommitted(node, demand)) {
    answer.refusal = GangRefusal::kForeignHolder;
    answer.message = HolderMessage(view, node, *wanted, gang.name);
  }
  return answer;
}

std::string OtherNodeMessage(const LedgerView& view, const PodQuestion& pod,
                             const GangAnswer& answer) {
  return fmt::format("rank block {} is placed on node {} (job {})", answer.first_rank,
                     view.nodes[answer.node].name, JobOf(pod));
}

}  // namespace asterism::scheduler::extender
