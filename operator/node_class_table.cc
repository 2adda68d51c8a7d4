#include "operator/node_class_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace asterism::operators {
namespace {

std::string ClassKey(const kube::StringPairs& labels, const std::vector<kube::Taint>& taints) {
  std::string key;
  for (const auto& [name, value] : labels) {
    absl::StrAppend(&key, name, "=", value, "\n");
  }
  for (const kube::Taint& taint : taints) {
    absl::StrAppend(&key, "\t", taint.key, "=", taint.value, ":", taint.effect, "\n");
  }
  return key;
}

}  // namespace

uint32_t NodeClassTable::Put(kube::Shared<kube::Node> node) {
  const auto [slot, added] = nodes_.try_emplace(node->meta.name);
  Entry& entry = slot->second;
  if (!added && entry.node->meta.labels == node->meta.labels &&
      entry.node->taints == node->taints) {
    entry.node = std::move(node);
    return entry.node_class;
  }
  // What is new first, so that nothing is forgotten and learnt again.
  CountLabels(*node);
  const uint32_t before = std::exchange(entry.node_class, Acquire(*node));
  const kube::Shared<kube::Node> old = std::exchange(entry.node, std::move(node));
  if (!added) {
    Release(before);
    UncountLabels(*old);
  }
  return entry.node_class;
}

void NodeClassTable::Remove(std::string_view name) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) {
    return;
  }
  const Entry entry = std::move(found->second);
  nodes_.erase(found);
  Release(entry.node_class);
  UncountLabels(*entry.node);
}

void NodeClassTable::CountLabels(const kube::Node& node) {
  for (const auto& [key, value] : node.meta.labels) {
    // A template that names the key was answered as if no node had it.
    version_ += ++carriers_[key] == 1 ? 1 : 0;
  }
}

void NodeClassTable::UncountLabels(const kube::Node& node) {
  for (const auto& [key, value] : node.meta.labels) {
    if (const auto found = carriers_.find(key); --found->second == 0) {
      carriers_.erase(found);
      asked_keys_.erase(key);  // no class has it
    }
  }
}

uint32_t NodeClassTable::Acquire(const kube::Node& node) {
  NodeClass wanted;
  for (const std::string& key : asked_keys_) {
    if (const auto label = node.meta.labels.find(key); label != node.meta.labels.end()) {
      wanted.labels.insert(*label);
    }
  }
  for (const kube::Taint& taint : node.taints) {
    if (KeepsPodsAway(taint)) {
      wanted.taints.push_back(taint);
    }
  }
  wanted.key = ClassKey(wanted.labels, wanted.taints);
  wanted.nodes = 1;
  if (const auto known = by_key_.find(wanted.key); known != by_key_.end()) {
    ++classes_[known->second].nodes;
    return known->second;
  }
  if (free_ids_.empty()) {
    free_ids_.insert(static_cast<uint32_t>(classes_.size()));
    classes_.emplace_back();
  }
  const uint32_t id = *free_ids_.begin();
  free_ids_.erase(free_ids_.begin());
  by_key_.emplace(wanted.key, id);
  classes_[id] = std::move(wanted);
  ++version_;
  return id;
}

void NodeClassTable::Release(uint32_t node_class) {
  if (--classes_[node_class].nodes > 0) {
    return;
  }
  by_key_.erase(classes_[node_class].key);
  classes_[node_class] = NodeClass();
  free_ids_.insert(node_class);
  while (!classes_.empty() && classes_.back().nodes == 0) {
    classes_.pop_back();
    free_ids_.erase(static_cast<uint32_t>(classes_.size()));
  }
}

// True when the classes must be made anew.
bool NodeClassTable::LearnKey(const std::string& key) {
  return carriers_.contains(key) && asked_keys_.insert(key).second;
}

void NodeClassTable::Reclassify() {
  for (auto& [name, entry] : nodes_) {
    const uint32_t before = std::exchange(entry.node_class, Acquire(*entry.node));
    Release(before);
    if (entry.node_class != before) {
      on_class_(*entry.node, entry.node_class);
    }
  }
}

bool NodeClassTable::Accepts(std::string_view name, const TemplateFit& fit) const {
  const auto entry = nodes_.find(name);
  return entry != nodes_.end() &&
         operators::Accepts(fit, entry->second.node->meta.labels, entry->second.node->taints);
}

base::Bitmap NodeClassTable::Allowed(const TemplateFit& fit) {
  bool learnt = false;
  for (const auto& [key, value] : fit.node_selector) {
    learnt |= LearnKey(key);
  }
  for (const auto& term : fit.terms) {
    for (const NodeRequirement& requirement : term) {
      learnt |= LearnKey(requirement.key);
    }
  }
  if (learnt) {
    Reclassify();
  }
  // Never empty: the engine takes that for "all".
  base::Bitmap allowed(std::max<size_t>(classes_.size(), 1));
  for (size_t id = 0; id < classes_.size(); ++id) {
    allowed.Set(id, classes_[id].nodes > 0 &&
                        operators::Accepts(fit, classes_[id].labels, classes_[id].taints));
  }
  return allowed;
}

}  // namespace asterism::operators
