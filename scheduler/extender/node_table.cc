#include "scheduler/extender/node_table.h"

#include "scheduler/extender/json_text.h"

namespace asterism::scheduler::extender {

NodeTable::NodeTable(const LedgerView& view) : cluster_(view.cluster), version_(view.version) {
  size_t bytes = 0;
  for (const NodeView& node : view.nodes) {
    bytes += node.name.size();
  }
  names_.reserve(bytes);  // no reallocation below: the map points into it
  fragments_.reserve(bytes + 3 * view.nodes.size() + kFragmentPadding);
  offsets_.reserve(view.nodes.size() + 1);
  id_by_name_.reserve(view.nodes.size());
  for (const NodeView& node : view.nodes) {
    const auto id = static_cast<uint32_t>(offsets_.size());
    offsets_.push_back(static_cast<uint32_t>(fragments_.size()));
    AppendJsonText(node.name, fragments_);
    fragments_ += ',';
    const size_t begin = names_.size();
    names_ += node.name;
    id_by_name_.emplace(std::string_view(names_).substr(begin), id);
  }
  offsets_.push_back(static_cast<uint32_t>(fragments_.size()));
  fragments_.append(kFragmentPadding, ' ');
}

bool NodeTable::Fits(const LedgerView& view) const {
  return cluster_ == view.cluster && size() == view.nodes.size() &&
         (cluster_ != nullptr || version_ == view.version);
}

uint32_t NodeTable::Find(std::string_view name) const {
  const auto found = id_by_name_.find(name);
  return found == id_by_name_.end() ? kNoNode : found->second;
}

void OrderHints::Reset(size_t size) {
  first_ = size == 0 ? kNoNode : 0;
  next_.resize(size);
  for (size_t i = 0; i < size; ++i) {
    next_[i] = i + 1 < size ? static_cast<uint32_t>(i + 1) : kNoNode;
  }
}

}  // namespace asterism::scheduler::extender
