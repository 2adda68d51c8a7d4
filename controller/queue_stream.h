// File: controller/queue_stream.h
//
// One caller who watches the queue. Keeps what it was told last and what is true now, and writes
// the difference whenever the caller has read what came before: a slow one gets the newest state,
// and nothing piles up for it.
//
//   auto stream = std::make_shared<QueueStream>(filter, credentials, writer, retired);
//   stream->Offer(state, visible);             // whenever something changed
//   stream->OnWritten();                       // from the writer
//   stream->End(absl::UnavailableError(...));  // the writer is told to finish, once
//
// Thread-safety: any thread. Cost: Offer and OnWritten O(rows log rows) where there is a
// difference.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "controller/caller_identity.h"
#include "controller/queue_state.h"
#include "controller/visible_namespaces.h"

namespace asterism::v1 {
class WatchQueueResponse;
}  // namespace asterism::v1

namespace asterism::controller {

// Rows beyond it are left out and counted.
inline constexpr size_t kQueueRowsMax = 2000;

struct QueueFilter {
  std::string namespace_name;  // empty: all that are visible
  std::string queue;           // empty: all
};

// What goes out; called under the stream's lock, so it may not call back.
class QueueWriter {
 public:
  virtual ~QueueWriter() = default;
  // OnWritten follows before the next.
  virtual void Write(std::unique_ptr<v1::WatchQueueResponse> message) = 0;
  // The last call.
  virtual void Finish(const absl::Status& status) = 0;
};

class QueueStream {
 public:
  // The writer lives until its Finish. `retired`: becomes true when the connection's server has had
  // its time.
  QueueStream(QueueFilter filter, Credentials credentials, QueueWriter& writer,
              std::shared_ptr<const std::atomic<bool>> retired);

  const QueueFilter& filter() const { return filter_; }
  const Credentials& credentials() const { return credentials_; }
  bool retired() const { return *retired_; }

  void Offer(std::shared_ptr<const QueueState> state,
             std::shared_ptr<const VisibleNamespaces> visible);
  void OnWritten();
  void End(const absl::Status& status);
  bool ended() const;

 private:
  // What somebody sees of the queue.
  struct Sight {
    std::shared_ptr<const QueueState> state;  // null: nothing was told yet
    std::shared_ptr<const VisibleNamespaces> visible;
    bool operator==(const Sight&) const = default;
  };
  struct Rows;

  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Rows RowsOf(const Sight& sight) const;
  std::unique_ptr<v1::WatchQueueResponse> MessageOf(const Sight& told, const Sight& now) const;

  const QueueFilter filter_;
  const Credentials credentials_;
  const std::shared_ptr<const std::atomic<bool>> retired_;
  mutable absl::Mutex mutex_;
  QueueWriter* writer_ ABSL_GUARDED_BY(mutex_);  // null: ended
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  Sight told_ ABSL_GUARDED_BY(mutex_);
  Sight newest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace asterism::controller
