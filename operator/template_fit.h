// File: operator/template_fit.h
//
// Which nodes a pod template accepts, and which accept it: node selector, required node affinity,
// taints and tolerations. Nodes of equal labels and taints form one class, so the question is asked
// once a class and answered as a bitmap that the placement engine scans.
//
//   NodeClassTable classes;
//   uint32_t node_class = classes.ClassOf(node);
//   base::Bitmap allowed = classes.Allowed(ReadTemplateFit(pod_spec_json));
//
// The label kubernetes.io/hostname is no part of a class (it would make each node one of its own);
// a template that selects by it is left to kube-scheduler, which then refuses the wrong node and
// the block moves. Pod affinity, spread constraints and volumes are left to kube-scheduler in the
// same way.
//
// Thread-safety: none. Cost: ClassOf one hash of the labels; Allowed O(classes x terms).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/bitmap.h"
#include "kube/node.h"
#include "kube/object.h"
#include "nlohmann/json_fwd.hpp"

namespace asterism::operators {

struct NodeRequirement {
  std::string key;
  std::string op;  // In, NotIn, Exists, DoesNotExist, Gt, Lt
  std::vector<std::string> values;
};

struct Toleration {
  std::string key;  // empty with Exists: every taint
  std::string op;   // Exists or Equal
  std::string value;
  std::string effect;  // empty: every effect
};

// What of a pod spec decides about nodes.
struct TemplateFit {
  kube::StringPairs node_selector;
  // Terms are OR-ed, requirements of a term AND-ed; no term: every node.
  std::vector<std::vector<NodeRequirement>> terms;
  std::vector<Toleration> tolerations;
};

// From the JSON of a PodSpec. Parts of a wrong type count as absent: the API server refuses them.
TemplateFit ReadTemplateFit(const nlohmann::json& pod_spec);

bool Accepts(const TemplateFit& fit, const kube::StringPairs& labels,
             const std::vector<kube::Taint>& taints);

class NodeClassTable {
 public:
  uint32_t ClassOf(const kube::Node& node);
  base::Bitmap Allowed(const TemplateFit& fit) const;
  size_t size() const { return classes_.size(); }

 private:
  struct NodeClass {
    kube::StringPairs labels;
    std::vector<kube::Taint> taints;
  };
  std::map<std::string, uint32_t, std::less<>> index_;
  std::vector<NodeClass> classes_;
};

}  // namespace asterism::operators
