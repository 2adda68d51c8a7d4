// File: kube/informer.h
//
// A live copy of one kind: lists, watches, and tells its owner about every change in order. The
// copy equals the server's at some resourceVersion and never goes back.
//
//   Informer<Pod> pods(source, executor, clock, rng, kPods, {}, DecodePod,
//                      {.on_change = [&](const Change<Pod>& change) {...}});
//   pods.Start();
//   if (pods.synced()) pods.store().Find("research/llama-0");
//
// The protocol (list, watch, WatchList, bookmarks, 410, back-off) is kube/watcher.h's; Informer
// decodes and stores. After a relist, objects that are gone are reported as deleted; an object
// whose resourceVersion is the one in the store is no change; the same name with another UID is a
// deletion and a new object. An object that cannot be decoded is logged and counted, and the copy
// that was there stays.
//
// Thread-safety: lives on one executor. Cost: one decoded object a change; Find is a hash look-up.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/strings.h"
#include "kube/decoder.h"
#include "kube/object.h"
#include "kube/resource_version.h"
#include "kube/watcher.h"

namespace asterism::kube {

template <typename T>
using Shared = std::shared_ptr<const T>;

// before is null for a new object, after is null for a deleted one.
template <typename T>
struct Change {
  Shared<T> before;
  Shared<T> after;
};

template <typename T>
struct InformerEvents {
  std::function<void(const Change<T>&)> on_change;
  // Once, after the first complete list has been reported through on_change.
  std::function<void()> on_synced;
  // After each complete list, the first included.
  std::function<void()> on_list = nullptr;
};

// The read side, which is what reconcilers see.
template <typename T>
class Store {
 public:
  Shared<T> Find(std::string_view key) const {
    const auto found = objects_.find(key);
    return found == objects_.end() ? nullptr : found->second;
  }
  size_t size() const { return objects_.size(); }
  // In no particular order.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const auto& [key, object] : objects_) {
      visit(object);
    }
  }

  // Write side, for the informer and for tests. Return what was there before.
  Shared<T> Put(std::string key, Shared<T> object) {
    Shared<T>& slot = objects_[std::move(key)];
    return std::exchange(slot, std::move(object));
  }
  Shared<T> Remove(std::string_view key) {
    const auto found = objects_.find(key);
    if (found == objects_.end()) {
      return nullptr;
    }
    Shared<T> before = std::move(found->second);
    objects_.erase(found);
    return before;
  }

 private:
  base::StringMap<Shared<T>> objects_;
};

template <typename T>
class Informer final : private WatchSink {
 public:
  // The references outlive this. `type`'s names are constants.
  Informer(WatchSource& source, base::Executor& executor, const base::Clock& clock, base::Rng rng,
           ResourceType type, WatchOptions options, Decoder<T> decoder, InformerEvents<T> events,
           WatcherTuning tuning)
      : events_(std::move(events)),
        watcher_(
            source, executor, clock, rng, type, std::move(options),
            [type, decoder = std::move(decoder)](const RawObject& raw) {
              return DecodeShared(type, decoder, raw);
            },
            *this, tuning) {}
  Informer(WatchSource& source, base::Executor& executor, const base::Clock& clock, base::Rng rng,
           ResourceType type, WatchOptions options, Decoder<T> decoder, InformerEvents<T> events)
      : Informer(source, executor, clock, std::move(rng), type, std::move(options),
                 std::move(decoder), std::move(events), WatcherTuning()) {}

  void Start() { watcher_.Start(); }
  // No event comes afterwards; the store stays as it is.
  void Stop() { watcher_.Stop(); }
  // Brings the copy up to a state that is not older than this call; on_list tells when it is there.
  void Resync() { watcher_.Resync(); }
  bool synced() const { return synced_; }
  const Store<T>& store() const { return store_; }
  Shared<T> Find(std::string_view key) const { return store_.Find(key); }
  // How old the copy may be at most, as far as is known: since the server was last heard of.
  absl::Duration SilentFor() const { return watcher_.SilentFor(); }
  const std::string& resource_version() const { return watcher_.resource_version(); }
  const WatcherStats& stats() const { return watcher_.stats(); }

 private:
  static absl::StatusOr<DecodedObject> DecodeShared(const ResourceType& type,
                                                    const Decoder<T>& decoder,
                                                    const RawObject& raw) {
    DecodedObject decoded;
    absl::StatusOr<T> object = decoder(raw);
    if (object.ok()) {
      auto shared = std::make_shared<const T>(*std::move(object));
      decoded.key = shared->meta.Key();
      decoded.resource_version = shared->meta.resource_version;
      decoded.object = std::move(shared);
      return decoded;
    }
    absl::StatusOr<ObjectMeta> meta = DecodeMeta(raw);
    if (!meta.ok()) {
      return meta.status();
    }
    decoded.key = meta->Key();
    decoded.resource_version = meta->resource_version;
    base::LogWarning("object_unreadable", {{"kind", type.kind},
                                           {"object", decoded.key},
                                           {"error", std::string(object.status().message())}});
    return decoded;
  }

  void Init() override { listed_.clear(); }

  void InitApply(DecodedObject object) override {
    std::string key = object.key;
    listed_.insert_or_assign(std::move(key), std::move(object));
  }

  void InitDelete(DecodedObject object) override { listed_.erase(object.key); }

  void InitDone() override {
    std::vector<std::string> gone;
    store_.ForEach([&](const Shared<T>& object) {
      if (std::string key = object->meta.Key(); !listed_.contains(key)) {
        gone.push_back(std::move(key));
      }
    });
    for (const std::string& key : gone) {
      Report({store_.Remove(key), nullptr});
    }
    base::StringMap<DecodedObject> listed;
    listed.swap(listed_);
    for (auto& [key, object] : listed) {
      Apply(std::move(object));
    }
    if (!synced_) {
      synced_ = true;
      if (events_.on_synced) {
        events_.on_synced();
      }
    }
    if (events_.on_list) {
      events_.on_list();
    }
  }

  void Apply(DecodedObject object) override {
    if (object.object == nullptr) {
      return;
    }
    auto after = std::static_pointer_cast<const T>(std::move(object.object));
    const Shared<T> known = store_.Find(object.key);
    if (known != nullptr) {
      const auto order =
          CompareResourceVersions(object.resource_version, known->meta.resource_version);
      if (object.resource_version == known->meta.resource_version || (order && *order < 0)) {
        return;  // the copy never goes back
      }
      if (known->meta.uid != after->meta.uid) {
        // The same name again, but another object: we have missed the end of the first one.
        Delete(object);
      }
    }
    Shared<T> before = store_.Put(std::move(object.key), after);
    Report({std::move(before), std::move(after)});
  }

  void Delete(DecodedObject object) override {
    Shared<T> before = store_.Remove(object.key);
    if (before != nullptr) {
      Report({std::move(before), nullptr});
    }
  }

  void Report(const Change<T>& change) {
    if (events_.on_change) {
      events_.on_change(change);
    }
  }

  const InformerEvents<T> events_;
  Store<T> store_;
  base::StringMap<DecodedObject> listed_;  // of a list that is not complete
  bool synced_ = false;
  Watcher watcher_;
};

}  // namespace asterism::kube
