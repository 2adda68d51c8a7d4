// File: kube/testing/fake_watch.h
//
// The watch streams of a FakeApiServer: initial events, changes in order, bookmarks, an end after
// the time that was asked for; they can be held back and cut.
//
// Thread-safety: lives on one executor. Cost: a post for each change and stream.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/executor.h"
#include "kube/testing/fake_store.h"
#include "kube/testing/selector.h"
#include "kube/watch_source.h"

namespace asterism::kube::testing {

class FakeWatches {
 public:
  FakeWatches(base::Executor& executor, const FakeStore& store, absl::Duration latency,
              absl::Duration bookmark_period)
      : executor_(executor), store_(store), latency_(latency), bookmark_period_(bookmark_period) {}
  ~FakeWatches();

  // `refused` not OK: the stream ends with it at once.
  std::unique_ptr<WatchStream> Open(const ResourceType& type, const WatchRequest& request,
                                    absl::Status refused, std::shared_ptr<WatchHandler> handler);
  void OnChange(const StoreChange& change);
  // Ends streams of a kind (empty: of all) with this status.
  void Cut(std::string_view kind, const absl::Status& status);
  // While held, changes wait; streams look alive but say nothing.
  void Hold(bool held);
  size_t open() const;

 private:
  struct Pending {
    WatchEventType type = WatchEventType::kAdded;
    std::shared_ptr<const std::string> text;
  };
  struct Stream {
    std::string kind;
    std::string api_version;
    std::string kind_name;
    std::string namespace_name;
    Selector selector;
    std::shared_ptr<WatchHandler> handler;
    std::deque<Pending> pending;
    bool pump_posted = false;
    bool open = true;
  };
  using StreamPointer = std::shared_ptr<Stream>;
  class Handle;

  bool Visible(const Stream& stream, const std::optional<StoredObject>& object) const;
  void QueueChange(Stream& stream, const StoreChange& change) const;
  void QueueInitial(Stream& stream, const WatchRequest& request) const;
  void QueueBookmark(Stream& stream, bool initial_events_end) const;
  void Pump(const StreamPointer& stream);
  void End(const StreamPointer& stream, const absl::Status& status);
  void ScheduleBookmark(const StreamPointer& stream);
  void Sweep();

  base::Executor& executor_;
  const FakeStore& store_;
  const absl::Duration latency_;
  const absl::Duration bookmark_period_;
  bool held_ = false;
  std::vector<StreamPointer> streams_;
  base::Alive alive_;
};

}  // namespace asterism::kube::testing
