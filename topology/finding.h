// File: topology/finding.h
//
// What is wrong with a cluster, in words: the kinds that the doctor knows, and one instance with
// its objects and evidence. What a kind costs and what to do about it stands in one table.
//
//   findings.push_back({FindingKind::kShortLeaf, {"leaf-3"}, "5 of 6 cables to the spines"});
//   FindingName(finding.kind);   // "short-leaf"
//
// Thread-safety: values; the table is constant. Cost: none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace asterism::topology {

enum class FindingKind : uint8_t {
  kAbsentRailLeaf,
  kShortLeaf,
  kCrossedRails,
  kForeignCable,
  kMissingPort,
  kPlaneLost,
  kMixedSpeed,
  kSelfLoop,
  kCycle,
  kManagementOnSpine,
  kNonComputeOnLeaf,
  kNamelessHca,
  kDuplicateName,
  kDuplicateGuid,
  kNvlinkLinkDown,
  kNvlinkIslandSmallerThanPeers,
  kPcieBelowPeers,
  kFabricUnhealthy,
  kCliqueZeroUuid,
  kCliqueOversize,
  kCliqueLeafgroupMismatch,
  kGpuCountMismatch,
  kNumaUnknown,
  kOverlayUsed,
  kGuestTree,
  kP2pImpossible,
  kCapacityAllocatableGap,
  kConflict,
  kStale,
  kMassChangeHeld,
  kIntentDiffers,
  kUnreadablePart,
};

struct FindingDescription {
  FindingKind kind;
  std::string_view name;    // as printed and as metrics label it
  std::string_view means;   // one sentence
  std::string_view costs;   // what a job or an operator loses
  std::string_view remedy;  // what to do
};

std::span<const FindingDescription> AllFindingKinds();
const FindingDescription& Describe(FindingKind kind);
inline std::string_view FindingName(FindingKind kind) {
  return Describe(kind).name;
}

struct Finding {
  FindingKind kind;
  std::vector<std::string> objects;  // foreign names
  std::string evidence;              // expected and observed, where it was seen

  friend bool operator==(const Finding&, const Finding&) = default;
};

// By kind, then objects in natural order, then evidence: the same findings in any order of input.
void SortFindings(std::vector<Finding>& findings);

}  // namespace asterism::topology
