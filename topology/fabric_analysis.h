// File: topology/fabric_analysis.h
//
// Reads a fabric as a cluster: which adapters are hosts, which switches are their leafs, which
// leafs form a group, which rail and plane each leaf serves, what is missing or cabled wrongly.
//
//   const FabricAnalysis analysis = AnalyzeFabric(fabric, {});
//   analysis.groups.size();
//   for (const Finding& finding : FabricFindings(fabric, analysis)) ...
//
// Rules (none of them knows a size): a port counts as compute when it runs at the modal rate of
// host ports, or when an agent says so; a strong host has more than half of the modal number of
// compute ports; a leaf is a switch with compute ports of two strong hosts or more; a weaker host
// belongs to its group when all its ports are on leafs, else it is a management host.
//
// Thread-safety: pure. Cost: linear in the links; 100,000 adapters take about 60 ms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "topology/fabric.h"
#include "topology/finding.h"
#include "topology/leaf_groups.h"

namespace asterism::topology {

inline constexpr uint8_t kNoRail = 0xff;

// Who owns a node or port GUID, from agents or from a list that an operator keeps.
using GuidOwners = absl::flat_hash_map<uint64_t, std::string>;

enum class HostRole : uint8_t {
  kGpu,         // strong
  kDegraded,    // lost ports, still in its group
  kManagement,  // weak, and not only on leafs
  kNonCompute,  // on leafs, yet no GPU host
  kUnattached,  // no compute port at all
};

struct HostPort {
  uint32_t adapter = kNoDevice;
  uint32_t switch_device = kNoDevice;  // kNoDevice: no link
  uint16_t port = 0;
  uint16_t switch_port = 0;
  uint32_t gbps = 0;
  bool compute = false;
  uint8_t rail = kNoRail;  // by the host's own numbering
  uint8_t plane = 0;
};

struct FabricHost {
  std::string name;
  HostRole role = HostRole::kUnattached;
  uint32_t group = kNoGroup;
  uint32_t compute_ports = 0;
  bool default_name = false;  // "localhost" and its kind
  bool foreign_name = false;  // formed unlike the names of the other hosts
  std::vector<HostPort> ports;
};

struct LeafSwitch {
  uint32_t device = kNoDevice;
  uint32_t group = kNoGroup;
  uint8_t rail = kNoRail;
  uint8_t plane = 0;
  bool rail_certain = false;  // most of its hosts agree
  uint32_t compute_ports = 0;
  uint32_t uplinks = 0;
  uint32_t down_ports = 0;  // host ports of any kind, also nameless ones
};

struct FabricGroup {
  std::vector<uint32_t> leafs;        // indexes of `leafs`
  std::vector<uint32_t> hosts;        // GPU hosts, in natural order of their names
  std::vector<uint32_t> other_hosts;  // named, but no GPU hosts
};

struct FabricAnalysis {
  std::vector<FabricHost> hosts;
  std::vector<LeafSwitch> leafs;
  std::vector<FabricGroup> groups;           // in natural order of their first host
  std::vector<uint32_t> nameless;            // adapters
  std::vector<std::vector<uint32_t>> tiers;  // switches, leafs first
  std::vector<uint32_t> component;           // of each switch device; others kNoGroup

  size_t switch_count = 0;
  size_t adapter_count = 0;  // with aggregation services
  size_t aggregation_count = 0;
  size_t component_count = 0;  // of the graph of switches
  size_t fabric_count = 0;     // compute components count as one
  size_t rail_count = 0;
  size_t plane_count = 1;
  uint32_t modal_gbps = 0;
  uint32_t modal_compute_ports = 0;
  uint32_t modal_down = 0;
  uint32_t modal_uplinks = 0;
  size_t equal_tier_links = 0;
  size_t self_loops = 0;  // cables
  bool tree = true;
  bool cross_rail_needs_top_tier = false;

  size_t CountHosts(HostRole role) const;
  size_t UplinksPresent() const;
  size_t LeafsBelowNominal() const;
};

FabricAnalysis AnalyzeFabric(const Fabric& fabric, const GuidOwners& owners);

// Sorted. Empty on a clean fabric.
std::vector<Finding> FabricFindings(const Fabric& fabric, const FabricAnalysis& analysis);

// `<host> <device>` of a node description. The host is empty for factory texts.
struct NodeDescription {
  std::string_view host;
  std::string_view device;
};
NodeDescription SplitDescription(std::string_view description);

// Sizes of the two sides of the graph of switches, bigger first; empty when it has an odd cycle.
std::vector<size_t> TwoColouring(const Fabric& fabric);
// Groups of a dragonfly: what stays connected without the cables between equal tiers, where each
// two such parts are joined. 0 when it is none.
size_t DragonflyGroups(const Fabric& fabric, const FabricAnalysis& analysis);

}  // namespace asterism::topology
