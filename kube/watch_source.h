// File: kube/watch_source.h
//
// Lists and watch streams as the API server gives them, without any rule about what to do next:
// that is kube/watcher.h. HttpApiClient implements it for a real server, testing::FakeApiServer for
// simulations.
//
//   stream = source.Watch(kPods, {.resource_version = "42"}, handler);
//
// Thread-safety: calls from any thread. Callbacks may come on a thread of the source, one at a time
// for each stream; they must be short. Cost: one request.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kube/client.h"
#include "kube/decoder.h"

namespace asterism::kube {

struct ListRequest {
  std::string namespace_name;  // empty: all namespaces
  std::string label_selector;
  std::string field_selector;
  // Empty: the newest state. Else: a state at least as new.
  std::string resource_version;
  std::string continue_token;
  int64_t limit = 0;  // 0: everything in one answer
};

struct WatchRequest {
  std::string namespace_name;
  std::string label_selector;
  std::string field_selector;
  std::string resource_version;
  // A WatchList: begins with an ADDED event for each object, then a bookmark with the annotation
  // k8s.io/initial-events-end.
  bool send_initial_events = false;
  absl::Duration timeout = absl::Minutes(5);  // after which the server ends it
};

enum class WatchEventType { kAdded, kModified, kDeleted, kBookmark, kError };

class WatchHandler {
 public:
  virtual ~WatchHandler() = default;
  // `object` is valid during the call. For kError it is a Status.
  virtual void OnEvent(WatchEventType type, const RawObject& object) = 0;
  // After the events that arrived together.
  virtual void OnBatchEnd() = 0;
  // Once. OK: the server ended the stream in the ordinary way.
  virtual void OnEnd(absl::Status status) = 0;
};

// Destroying it ends the stream: a callback that runs on another thread at that moment finishes,
// later ones do not come.
class WatchStream {
 public:
  virtual ~WatchStream() = default;
};

class WatchSource {
 public:
  virtual ~WatchSource() = default;
  // One page; ListPageOf reads it. `done` may come on a thread of the source.
  virtual void List(const ResourceType& type, ListRequest request, ReplyCallback done) = 0;
  virtual std::unique_ptr<WatchStream> Watch(const ResourceType& type, WatchRequest request,
                                             std::shared_ptr<WatchHandler> handler) = 0;
};

}  // namespace asterism::kube
