// File: kube/watcher.h
//
// The protocol that keeps a copy of one kind equal to the server's: a WatchList or a paged list
// first, then watches without end, with bookmarks, relists and back-off. It knows no type of
// object; Informer<T> of kube/informer.h decodes and stores.
//
//   Watcher watcher(source, executor, clock, rng, kPods, {}, decode, sink, {});
//   watcher.Start();     // sink.Init(), InitApply(object)..., InitDone(), then Apply and Delete
//
// Rules (client-go tools/cache/reflector.go, kube-rs watcher.rs): WatchList where the server has
// it, else pages of 500; a watch that ends is opened again at the last resourceVersion; 410 lists
// again from there, and from the newest state when that is too old or too new; errors back off from
// 800 ms to 30 s (4 s while nothing answers), anew after what has worked; a watch that is silent
// for too long is given up.
//
// Thread-safety: lives on one executor; objects are decoded on the source's thread, and delivered
// in order. Cost: one post for each batch that the network brings.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/rng.h"
#include "kube/decoder.h"
#include "kube/watch_source.h"

namespace asterism::kube {

// Which objects of a kind.
struct WatchOptions {
  std::string namespace_name;  // empty: all namespaces
  std::string label_selector;
  std::string field_selector;
};

struct DecodedObject {
  std::string key;  // ObjectMeta::Key()
  std::string resource_version;
  std::shared_ptr<const void> object;  // null: it cannot be read (logged); the old copy stays
};
// Called on the source's thread. An error: not even the metadata can be read.
using ObjectDecoder = std::function<absl::StatusOr<DecodedObject>(const RawObject&)>;

// Receives the copy. Calls come on the executor; a sink may stop the watcher in them.
class WatchSink {
 public:
  virtual ~WatchSink() = default;
  // A complete list begins; what came of an unfinished one before is void.
  virtual void Init() = 0;
  virtual void InitApply(DecodedObject object) = 0;
  // Deleted while the list was being sent.
  virtual void InitDelete(DecodedObject object) = 0;
  // The list is complete: what is not in it is gone.
  virtual void InitDone() = 0;
  virtual void Apply(DecodedObject object) = 0;
  virtual void Delete(DecodedObject object) = 0;
};

struct WatcherTuning {
  bool watch_list = true;
  int64_t page_size = 500;
  absl::Duration timeout_min = absl::Minutes(5);
  absl::Duration timeout_max = absl::Minutes(10);
  absl::Duration backoff_first = absl::Milliseconds(800);
  absl::Duration backoff_max = absl::Seconds(30);
  absl::Duration backoff_away_max = absl::Seconds(4);  // no answer at all
  absl::Duration backoff_reset = absl::Minutes(2);     // of quiet
  // Bookmarks come about once a minute.
  absl::Duration silence_max = absl::Seconds(150);
  // Errors 500 of a watch for so long: list again.
  absl::Duration internal_errors_max = absl::Minutes(1);
};

struct WatcherStats {
  uint64_t lists = 0;    // complete ones, WatchLists included
  uint64_t watches = 0;  // opened
  uint64_t expired = 0;  // 410 of any kind
  uint64_t errors = 0;   // everything that led to a back-off
  uint64_t silent = 0;   // given up by the watchdog
  uint64_t unreadable = 0;
};

class Watcher {
 public:
  Watcher(WatchSource& source, base::Executor& executor, const base::Clock& clock, base::Rng rng,
          ResourceType type, WatchOptions options, ObjectDecoder decode, WatchSink& sink,
          WatcherTuning tuning);
  ~Watcher();

  void Start();
  // Ends at once; nothing is delivered afterwards. Start begins with a new list.
  void Stop();
  // Lists again, from a state that is not older than this call (a consistent read): for whoever
  // must not act on the past. Ends in InitDone, as every list.
  void Resync();

  // The first list has been delivered.
  bool synced() const { return synced_; }
  // Since the server was last heard of (an event, a bookmark, a page).
  absl::Duration SilentFor() const { return clock_.SteadyNow() - last_activity_; }
  const std::string& resource_version() const { return resource_version_; }
  const WatcherStats& stats() const { return stats_; }

 private:
  struct Event {
    WatchEventType type = WatchEventType::kAdded;
    DecodedObject object;
    bool initial_events_end = false;  // of a bookmark
    absl::Status error;               // of kError
  };
  struct Page {
    std::string resource_version;
    std::string continue_token;
    std::vector<DecodedObject> objects;
  };
  class Session;

  static absl::StatusOr<Page> DecodePage(const ObjectDecoder& decode, absl::StatusOr<Reply> reply);

  void Next();  // opens what the state asks for
  void OpenList();
  void OnPage(absl::StatusOr<Page> page);
  void OnListFailed(const absl::Status& status);
  void FinishInit(std::string resource_version);

  void OpenWatch(bool initial_events);
  void OnEvents(std::vector<Event> events);
  void OnEvent(Event& event);
  void OnStreamEnd(absl::Status status);
  void OnWatchListEnd(const absl::Status& status);
  void OnWatchEnd(const absl::Status& status);
  void OnSilence();
  void EndStream();

  void Expired();
  void Relist();
  void BackOff(const absl::Status& status);
  void Touch();
  void NoteUnreadable(const DecodedObject& object);

  WatchSource& source_;
  base::Executor& executor_;
  const base::Clock& clock_;
  base::Rng rng_;
  const ResourceType type_;
  const WatchOptions options_;
  const ObjectDecoder decode_;
  WatchSink& sink_;
  const WatcherTuning tuning_;

  bool running_ = false;
  bool synced_ = false;
  uint64_t session_ = 0;  // counts lists and streams; answers of older ones are void
  bool need_list_ = true;
  bool watch_list_ = true;  // the server is thought to have it
  bool list_once_ = false;  // the next list is a classic one
  int watch_list_failures_ = 0;
  bool initial_phase_ = false;    // the stream is a WatchList before its end
  bool page_limit_ = true;        // false: the next list asks for everything at once
  std::string list_version_;      // at least as new as this; empty: the newest
  std::string resource_version_;  // the last one seen
  std::string continue_token_;
  std::unique_ptr<WatchStream> stream_;
  uint64_t stream_events_ = 0;
  base::SteadyTime stream_opened_;
  base::SteadyTime last_activity_;
  base::SteadyTime internal_errors_since_;
  absl::Duration backoff_ = absl::ZeroDuration();
  base::SteadyTime last_backoff_;
  bool proven_ = false;  // a list or a watch has worked since the last back-off
  std::optional<base::SteadyTime> last_expired_;
  WatcherStats stats_;
  base::OwnedTimer retry_timer_;
  base::OwnedTimer silence_timer_;
  std::unique_ptr<base::Alive> alive_;
};

}  // namespace asterism::kube
