// File: topology/fabric_merge.h
//
// Dumps of several sources as one fabric, and what is remembered of it: the leaf group of each node
// under an id that lasts, its rails, and the tier above. What a later dump does not show any more
// stays known.
//
//   FabricMerge fabrics;
//   if (fabrics.Put("ibnetdiscover", std::move(fabric), now)) fabrics.Analyze(owners);
//   fabrics.GroupOf("gpu-7");
//
// Thread-safety: none. Cost: Analyze is that of fabric_analysis.h; look-ups O(1).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/strings.h"
#include "topology/domain_ids.h"
#include "topology/fabric.h"
#include "topology/fabric_analysis.h"
#include "topology/finding.h"

namespace asterism::topology {

class FabricMerge {
 public:
  // False, and nothing changes, for a fabric without a switch or a cable: it is no answer.
  bool Put(std::string source, Fabric fabric, absl::Time now);
  // The group that a node was in before a restart; before the first Analyze.
  void RememberGroup(const std::string& node, const std::string& id);
  void Analyze(const GuidOwners& owners);

  bool empty() const { return fragments_.empty(); }
  bool analyzed() const { return analysis_.has_value(); }
  const std::vector<Finding>& findings() const { return findings_; }
  // Null, or 0, when not known.
  const std::string* GroupOf(std::string_view node) const;
  const std::string* TierOf(std::string_view group) const;
  uint32_t RailsOf(std::string_view node) const;
  // Sources that were last heard before.
  std::vector<std::string> OlderThan(absl::Time time) const;
  // Each source and when it was last heard, by name.
  std::vector<std::pair<std::string, absl::Time>> Observed() const;

 private:
  struct Fragment {
    Fabric fabric;
    absl::Time observed;
  };

  Fabric Joined() const;
  void FindTiers(const Fabric& fabric, const std::vector<std::string>& ids);

  std::map<std::string, Fragment, std::less<>> fragments_;
  std::optional<FabricAnalysis> analysis_;
  std::vector<Finding> findings_;
  DomainIds group_ids_;
  base::StringMap<std::string> group_of_node_;
  base::StringMap<std::string> tier_of_group_;
  base::StringMap<uint32_t> rails_of_node_;
};

}  // namespace asterism::topology
