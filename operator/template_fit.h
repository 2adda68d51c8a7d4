// File: operator/template_fit.h
//
// Which nodes a pod template accepts, and which accept it: node selector, required node affinity,
// taints and tolerations.
//
//   const TemplateFit fit = ReadTemplateFit(pod_spec_json);
//   if (Accepts(fit, node.meta.labels, node.taints)) ...
//
// A requirement on the label kubernetes.io/hostname is left out (a template may only exclude nodes
// by it): kube-scheduler then refuses the wrong node and the block moves. Pod affinity, spread
// constraints and volumes are left to kube-scheduler in the same way.
//
// Thread-safety: pure. Cost: Accepts O(terms x values + taints x tolerations).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kube/node.h"
#include "kube/object.h"
#include "nlohmann/json_fwd.hpp"

namespace asterism::operators {

inline constexpr std::string_view kHostnameLabel = "kubernetes.io/hostname";

struct NodeRequirement {
  std::string key;
  std::string op;  // In, NotIn, Exists, DoesNotExist, Gt, Lt
  std::vector<std::string> values;

  bool operator==(const NodeRequirement&) const = default;
};

struct Toleration {
  std::string key;  // empty with Exists: every taint
  std::string op;   // Exists or Equal
  std::string value;
  std::string effect;  // empty: every effect

  bool operator==(const Toleration&) const = default;
};

// What of a pod spec decides about nodes.
struct TemplateFit {
  kube::StringPairs node_selector;
  // Terms are OR-ed, requirements of a term AND-ed; no term: every node.
  std::vector<std::vector<NodeRequirement>> terms;
  std::vector<Toleration> tolerations;

  bool operator==(const TemplateFit&) const = default;
};

// Requirements, their values and tolerations: what one look at a node may cost.
size_t RuleCount(const TemplateFit& fit);

// From the JSON of a PodSpec. Parts of a wrong type count as absent: the API server refuses them.
TemplateFit ReadTemplateFit(const nlohmann::json& pod_spec);

// False for an effect that is only a preference.
bool KeepsPodsAway(const kube::Taint& taint);

bool Accepts(const TemplateFit& fit, const kube::StringPairs& labels,
             const std::vector<kube::Taint>& taints);

}  // namespace asterism::operators
