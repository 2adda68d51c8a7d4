// File: kube/testing/fake_store.h
//
// What etcd and the watch cache hold, in memory: objects by kind and key, one counter of
// resourceVersions, and the changes since the last compaction. FakeApiServer gives it verbs.
//
// Thread-safety: none. Cost: an object is serialised once for a change, whatever the number of
// watches.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kube/client.h"
#include "kube/watch_source.h"
#include "nlohmann/json_fwd.hpp"

namespace asterism::kube::testing {

// One version of an object, and its text.
struct StoredObject {
  std::shared_ptr<const nlohmann::json> object;
  std::shared_ptr<const std::string> text;
  uint64_t version = 0;
};

struct StoreChange {
  uint64_t version = 0;
  std::string kind;  // KindKey
  std::optional<StoredObject> before;
  std::optional<StoredObject> after;  // nothing: deleted
};

class FakeStore {
 public:
  using Objects = std::map<std::string, StoredObject, std::less<>>;

  explicit FakeStore(size_t history_max) : history_max_(history_max) {}

  static std::string KindKey(const ResourceType& type);
  // "namespace/name" or "name".
  static std::string ObjectKey(const ResourceType& type, const ObjectName& name);

  uint64_t version() const { return version_; }
  // Null when absent.
  const StoredObject* Find(std::string_view kind, std::string_view key) const;
  const Objects& All(std::string_view kind) const;
  const std::map<std::string, Objects, std::less<>>& kinds() const { return kinds_; }

  // Stores `object` under a new version, which is written into its metadata.
  const StoreChange& Put(const std::string& kind, const std::string& key, nlohmann::json object);
  // The last version of a deleted object carries the version of the deletion.
  const StoreChange& Remove(const std::string& kind, const std::string& key);

  // Changes after `version`, or nothing when they are no longer known.
  const std::deque<StoreChange>& history() const { return history_; }
  bool Knows(uint64_t version) const { return version >= compacted_; }
  // Forgets all changes: lists and watches from before now are answered with 410.
  void Compact();
  // Lets the counter jump, as other kinds of a real server do.
  void Skip(uint64_t versions) { version_ += versions; }

 private:
  const StoreChange& Append(StoreChange change);

  const size_t history_max_;
  uint64_t version_ = 100;
  uint64_t compacted_ = 0;
  std::map<std::string, Objects, std::less<>> kinds_;
  std::deque<StoreChange> history_;
};

}  // namespace asterism::kube::testing
