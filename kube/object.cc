#include "kube/object.h"

namespace asterism::kube {
namespace {

std::string_view Value(const StringPairs& pairs, std::string_view key) {
  const auto found = pairs.find(key);
  return found == pairs.end() ? std::string_view() : std::string_view(found->second);
}

}  // namespace

std::string ObjectMeta::Key() const {
  return namespace_name.empty() ? name : namespace_name + "/" + name;
}

std::string_view ObjectMeta::Label(std::string_view key) const {
  return Value(labels, key);
}

std::string_view ObjectMeta::Annotation(std::string_view key) const {
  return Value(annotations, key);
}

const OwnerReference* ObjectMeta::Controller() const {
  for (const OwnerReference& owner : owners) {
    if (owner.controller) {
      return &owner;
    }
  }
  return nullptr;
}

const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type) {
  for (const Condition& condition : conditions) {
    if (condition.type == type) {
      return &condition;
    }
  }
  return nullptr;
}

}  // namespace asterism::kube
