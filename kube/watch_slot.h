// File: kube/watch_slot.h
//
// The place of a watch whose HTTP stream is opened later, once there are credentials, unless nobody
// wants it by then.
//
//   const auto slot = std::make_shared<WatchSlot>();
//   WithCredentials([slot] { slot->Open([] { return http.Open(...); }); });
//   return std::make_unique<HttpWatchStream>(slot);   // its end closes the slot
//
// Thread-safety: yes. Cost: a lock.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kube/http_client.h"
#include "kube/watch_source.h"

namespace asterism::kube {

class WatchSlot {
 public:
  bool closed() const {
    absl::MutexLock lock(&mutex_);
    return closed_;
  }
  void Open(const std::function<std::unique_ptr<HttpStream>()>& open) {
    absl::MutexLock lock(&mutex_);
    if (!closed_) {
      stream_ = open();
    }
  }
  void Close() {
    std::unique_ptr<HttpStream> stream;  // ends outside the lock: that waits for its callbacks
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    stream = std::move(stream_);
  }

 private:
  mutable absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<HttpStream> stream_ ABSL_GUARDED_BY(mutex_);
};

class HttpWatchStream final : public WatchStream {
 public:
  explicit HttpWatchStream(std::shared_ptr<WatchSlot> slot) : slot_(std::move(slot)) {}
  ~HttpWatchStream() override { slot_->Close(); }

 private:
  const std::shared_ptr<WatchSlot> slot_;
};

}  // namespace asterism::kube
