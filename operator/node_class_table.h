// File: operator/node_class_table.h
//
// Nodes that every pod template sees alike form one class, so that a template is compared with a
// few classes instead of all nodes. The answer is a bitmap that the placement engine scans.
//
//   NodeClassTable classes([&](const kube::Node& node, uint32_t node_class) { ... });
//   uint32_t node_class = classes.Put(node);
//   base::Bitmap allowed = classes.Allowed(fit);   // may put nodes into other classes
//
// A class is the taints of a node and those of its labels that some template has asked for. Labels
// nobody selects by (timestamps, instance ids, host names: one value a node) make no classes. A key
// counts from the first Allowed that names it until no node has that label any more.
//
// Ids are used again once no node is in a class. So a bitmap is valid only until version() changes;
// one that is older may allow a node wrongly: ask Allowed again before each placement.
//
// Thread-safety: none. Cost: Put O(labels) when labels or taints changed; Allowed O(classes x
// terms), and O(nodes) when it names a key for the first time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/bitmap.h"
#include "kube/informer.h"
#include "kube/node.h"
#include "operator/template_fit.h"

namespace asterism::operators {

class NodeClassTable {
 public:
  // A node that was put went to another class while Allowed was asked.
  using OnClass = std::function<void(const kube::Node& node, uint32_t node_class)>;

  explicit NodeClassTable(OnClass on_class) : on_class_(std::move(on_class)) {}

  // Adds or replaces the node of that name; returns its class.
  uint32_t Put(kube::Shared<kube::Node> node);
  void Remove(std::string_view name);

  // The classes that accept the template.
  base::Bitmap Allowed(const TemplateFit& fit);
  // Whether the node accepts the template now; false for one that is not here.
  bool Accepts(std::string_view name, const TemplateFit& fit) const;
  // Ids in use are below it.
  size_t size() const { return classes_.size(); }
  // Rises whenever a bitmap that was given out may have become wrong.
  uint64_t version() const { return version_; }

 private:
  struct NodeClass {
    std::string key;
    kube::StringPairs labels;
    std::vector<kube::Taint> taints;
    size_t nodes = 0;  // 0: the id is free
  };
  struct Entry {
    kube::Shared<kube::Node> node;
    uint32_t node_class = 0;
  };

  uint32_t Acquire(const kube::Node& node);
  void Release(uint32_t node_class);
  void CountLabels(const kube::Node& node);
  void UncountLabels(const kube::Node& node);
  bool LearnKey(const std::string& key);
  void Reclassify();

  const OnClass on_class_;
  std::map<std::string, Entry, std::less<>> nodes_;
  std::map<std::string, size_t, std::less<>> carriers_;  // nodes that have a label, by its key
  std::set<std::string> asked_keys_;                     // those of carriers_ that templates name
  std::vector<NodeClass> classes_;
  std::set<uint32_t> free_ids_;
  std::map<std::string, uint32_t, std::less<>> by_key_;
  uint64_t version_ = 0;
};

}  // namespace asterism::operators
