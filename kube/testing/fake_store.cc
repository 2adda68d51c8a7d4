#include "kube/testing/fake_store.h"

#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace asterism::kube::testing {
namespace {

StoredObject Stored(nlohmann::json object, uint64_t version) {
  object["metadata"]["resourceVersion"] = fmt::to_string(version);
  StoredObject stored;
  stored.text = std::make_shared<const std::string>(
      object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  stored.object = std::make_shared<const nlohmann::json>(std::move(object));
  stored.version = version;
  return stored;
}

}  // namespace

std::string FakeStore::KindKey(const ResourceType& type) {
  return fmt::format("{}/{}", type.group, type.plural);
}

std::string FakeStore::ObjectKey(const ResourceType& type, const ObjectName& name) {
  return type.namespaced ? name.namespace_name + "/" + name.name : name.name;
}

const StoredObject* FakeStore::Find(std::string_view kind, std::string_view key) const {
  const Objects& objects = All(kind);
  const auto found = objects.find(key);
  return found == objects.end() ? nullptr : &found->second;
}

const FakeStore::Objects& FakeStore::All(std::string_view kind) const {
  static const Objects kNone;
  const auto found = kinds_.find(kind);
  return found == kinds_.end() ? kNone : found->second;
}

const StoreChange& FakeStore::Put(const std::string& kind, const std::string& key,
                                  nlohmann::json object) {
  ++version_;
  StoreChange change{version_, kind, std::nullopt, Stored(std::move(object), version_)};
  Objects& objects = kinds_[kind];
  if (const auto found = objects.find(key); found != objects.end()) {
    change.before = found->second;
  }
  objects[key] = *change.after;
  return Append(std::move(change));
}

const StoreChange& FakeStore::Remove(const std::string& kind, const std::string& key) {
  ++version_;
  Objects& objects = kinds_[kind];
  const auto found = objects.find(key);
  StoreChange change{version_, kind, Stored(*found->second.object, version_), std::nullopt};
  objects.erase(found);
  return Append(std::move(change));
}

const StoreChange& FakeStore::Append(StoreChange change) {
  history_.push_back(std::move(change));
  if (history_.size() > history_max_) {
    compacted_ = history_.front().version;
    history_.pop_front();
  }
  return history_.back();
}

void FakeStore::Compact() {
  compacted_ = version_;
  history_.clear();
}

}  // namespace asterism::kube::testing
