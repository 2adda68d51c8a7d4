// File: kube/informer.h
//
// A live copy of one kind: lists, watches, and tells its owner about every change in order. The
// copy equals the server's at some resourceVersion and never goes back.
//
//   Informer<Pod> pods(source, executor, {.on_change = [&](const Change<Pod>& change) {...}});
//   pods.Start();
//   if (pods.synced()) pods.Find("research/llama-0");
//
// The protocol (list, watch, WatchList, bookmarks, 410, back-off) is kube/watcher.h's; Informer
// decodes and stores. After a relist, objects that are gone are reported as deleted.
//
// Thread-safety: lives on one executor. Cost: one decoded object a change; Find is a hash look-up.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"

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

}  // namespace asterism::kube
