#include "topology/finding.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/check.h"
#include "topology/natural_order.h"

namespace asterism::topology {
namespace {

using enum FindingKind;

constexpr std::array<FindingDescription, 32> kFindingKinds = {{
    {kAbsentRailLeaf, "absent-rail-leaf",
     "a leaf group has no switch for a rail that other groups have",
     "every node of the group has one rail less: collective bandwidth falls by that share",
     "look for a leaf switch that is off, unmanaged or not cabled to the spines; add it to the "
     "subnet"},
    {kShortLeaf, "short-leaf", "a leaf switch has fewer cables to the spines than its peers",
     "traffic that leaves the group shares fewer uplinks",
     "check the named switch for dark or unplugged uplink ports and reseat or replace the cables"},
    {kCrossedRails, "crossed-rails", "two cables of a host end on each other's rail",
     "rail-aligned traffic of this host climbs to the spines and slows every job that it takes "
     "part in",
     "swap the two cables at the host or at the leaf switches"},
    {kForeignCable, "foreign-cable", "a cable of a host ends on a leaf switch of another group",
     "this rail of the host is as far from its group as the spines, and loads a foreign leaf",
     "move the cable to the leaf switch of its own group and rail"},
    {kMissingPort, "missing-port", "a host has no link on a rail that its group has",
     "the host runs with fewer rails, and a gang is as slow as its slowest host",
     "check the adapter, the transceiver and the cable of that rail; look for the link state Down "
     "or Polling"},
    {kPlaneLost, "plane-lost", "an adapter has lost the link into one of its planes",
     "this adapter has half of its bandwidth and no second way when the other plane fails",
     "check the port, transceiver and cable into that plane"},
    {kMixedSpeed, "mixed-speed", "links that should be equal run at different rates",
     "the slowest link sets the pace of a collective operation",
     "compare cable and transceiver types; a link that trained low is reseated or replaced"},
    {kSelfLoop, "self-loop", "a cable joins a switch to itself", "two ports do nothing",
     "remove the cable, or move one end to where it belongs"},
    {kCycle, "cycle", "the switches form no tree: cables join switches of the same tier",
     "levels above the leaf groups cannot be told; they are treated as flat",
     "nothing, if the fabric is a ring, a dragonfly or a mesh on purpose; else remove the cables"},
    {kManagementOnSpine, "management-on-spine",
     "a host that is no GPU host hangs on a switch above the leafs",
     "nothing for placement; such a host must not be taken for a node",
     "nothing, if it is wanted; hosts of the subnet manager are often cabled so"},
    {kNonComputeOnLeaf, "non-compute-on-leaf",
     "a host that is no GPU host shares the leaf switches of a compute group",
     "its traffic competes with the collectives of the group",
     "give the host a name if it is a node; else move it to a leaf of its own, or accept it"},
    {kNamelessHca, "nameless-hca", "adapters carry the factory description instead of a host name",
     "their hosts can be found by GUID only, and not at all without an agent on them",
     "set the node description (rdma-ndd, or /sys/class/infiniband/*/node_desc) on these hosts"},
    {kDuplicateName, "duplicate-name", "one name is used by several devices of one fabric",
     "people cannot tell them apart; Asterism keys by GUID", "give each its own name"},
    {kDuplicateGuid, "duplicate-guid", "one GUID is listed twice", "the second record is not used",
     "find the device with a copied GUID, or the dump that was pasted twice"},
    {kNvlinkLinkDown, "nvlink-link-down", "links between GPUs are down",
     "the pair has less bandwidth; a collective waits for its slowest pair",
     "read the GPU's NVLink error counters and Xid events, reset or replace the GPU or the bridge"},
    {kNvlinkIslandSmallerThanPeers, "nvlink-island-smaller-than-peers",
     "a GPU stands outside the links of its board",
     "traffic from and to it goes over PCIe, at a tenth of the rate",
     "look at the fabric manager's log and the GPU's NVLink state; reset the GPU or drain the "
     "node"},
    {kPcieBelowPeers, "pcie-below-peers",
     "a PCIe link is narrower or slower than that of its peers",
     "host copies and RDMA of that device are slower",
     "reseat the device; check the slot and the firmware"},
    {kFabricUnhealthy, "fabric-unhealthy", "a GPU reports its NVLink fabric as unhealthy",
     "traffic inside the NVLink domain may be slow or fail",
     "read the fabric manager's log; restart it or drain the node"},
    {kCliqueZeroUuid, "clique-zero-uuid", "the NVLink domain has the all-zero UUID",
     "it counts as no domain: all such nodes would be one domain otherwise",
     "nothing on a machine without a multi-node NVLink fabric; else start the fabric manager"},
    {kCliqueOversize, "clique-oversize", "an NVLink domain has more GPUs than its product can have",
     "one of the two statements is wrong; nodes would be placed as if they were near",
     "check that clusters have different UUIDs (a placeholder UUID is a known mistake)"},
    {kCliqueLeafgroupMismatch, "clique-leafgroup-mismatch",
     "an NVLink domain and a leaf group do not hold the same nodes",
     "levels do not nest: a gang inside one may be spread over several of the other",
     "check the cabling and the partitions of the NVLink fabric"},
    {kGpuCountMismatch, "gpu-count-mismatch", "sources disagree on how many GPUs the node has",
     "what was read is a part of the machine",
     "let the reader see all devices (run it outside the container's device limits)"},
    {kNumaUnknown, "numa-unknown", "no NUMA node is known for a device",
     "devices of one NUMA node cannot be told from those of two",
     "update the firmware, or give an overlay file"},
    {kOverlayUsed, "overlay-used", "distances come from an overlay file and were not measured",
     "a wrong overlay means wrong placement inside the node",
     "nothing, if the file belongs to this machine type"},
    {kGuestTree, "guest-tree", "the PCI tree is that of a hypervisor",
     "distances between GPUs and network cards are not real",
     "give an overlay file for this machine type"},
    {kP2pImpossible, "p2p-impossible", "GPUs that are near by PCI cannot reach each other's memory",
     "copies between them go through the host",
     "check IOMMU, ACS and the driver's P2P support, or place such jobs elsewhere"},
    {kCapacityAllocatableGap, "capacity-allocatable-gap",
     "fewer GPUs can be allocated than the node has", "the missing GPUs take no job",
     "see what the device plug-in says about unhealthy devices on this node"},
    {kConflict, "conflict", "two sources of equal rank disagree",
     "one of them is wrong, and nodes may be placed by it",
     "find out which is right and switch the other one off"},
    {kStale, "stale", "a source has been silent longer than it may be",
     "the last known good state is used; what has changed since is not seen",
     "check the agent or importer"},
    {kMassChangeHeld, "mass-change-held",
     "an update would have moved many nodes at once and is held back",
     "the former topology stays in use", "confirm it, or let the source say it a second time"},
    {kIntentDiffers, "intent-differs", "what is declared differs from what is observed",
     "the observation is used", "change the cabling or the intent file"},
    {kUnreadablePart, "unreadable-part", "a part of the input cannot be used",
     "what it said is not known", "take the dump again, completely; the line is named"},
}};

}  // namespace

std::span<const FindingDescription> AllFindingKinds() {
  return kFindingKinds;
}

const FindingDescription& Describe(FindingKind kind) {
  const FindingDescription& found = kFindingKinds[static_cast<size_t>(kind)];
  DCHECK_THAT(found.kind == kind, "the table of findings is not in the order of the kinds");
  return found;
}

void SortFindings(std::vector<Finding>& findings) {
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& left, const Finding& right) {
    if (left.kind != right.kind) {
      return left.kind < right.kind;
    }
    const size_t both = std::min(left.objects.size(), right.objects.size());
    for (size_t i = 0; i < both; ++i) {
      if (const int order = NaturalCompare(left.objects[i], right.objects[i]); order != 0) {
        return order < 0;
      }
    }
    if (left.objects.size() != right.objects.size()) {
      return left.objects.size() < right.objects.size();
    }
    return NaturalLess(left.evidence, right.evidence);
  });
}

}  // namespace asterism::topology
