#include "controller/queue_watch.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "controller/placement_desk.h"

namespace asterism::controller {

// What the worker is to offer next.
struct QueueWatch::Latest {
  absl::Mutex mutex;
  std::shared_ptr<const QueueState> state ABSL_GUARDED_BY(mutex);  // null: nothing waits
  std::shared_ptr<const VisibleNamespaces> visible ABSL_GUARDED_BY(mutex);
};

QueueWatch::QueueWatch(Dependencies dependencies, QueueWatchOptions options)
    : dependencies_(dependencies), options_(options), timer_(dependencies_.core) {}

void QueueWatch::Add(std::shared_ptr<QueueStream> stream, std::shared_ptr<AdmittedCall> call) {
  const uint64_t id = ++last_id_;
  Watcher& watcher = watchers_[id];
  watcher.stream = std::move(stream);
  watcher.call = std::move(call);
  watcher.latest = std::make_shared<Latest>();
  if (!timer_.pending()) {
    timer_.Start(options_.tick, [this] { Tick(); });
  }
  Renew(id, watcher);
}

void QueueWatch::Tick() {
  std::erase_if(watchers_, [](const auto& entry) { return entry.second.stream->ended(); });
  if (watchers_.empty()) {
    state_ = nullptr;
    return;
  }
  Look();
  timer_.Start(options_.tick, [this] { Tick(); });
}

bool QueueWatch::Capture() {
  const ControlPlane& plane = dependencies_.plane;
  if (!plane.leading() || plane.jobs() == nullptr) {
    return false;
  }
  state_ = CaptureQueue(*plane.jobs(), state_);
  return true;
}

void QueueWatch::Look() {
  const std::shared_ptr<const QueueState> before = state_;
  const bool leading = Capture();
  const base::SteadyTime now = dependencies_.clock.SteadyNow();
  // What is called here takes nobody out of the map.
  for (auto& [id, watcher] : watchers_) {
    if (!leading) {
      watcher.stream->End(NotLeadingError(dependencies_.plane));
    } else if (watcher.stream->retired()) {
      watcher.stream->End(
          absl::UnavailableError("the server has a new certificate: connect and call again"));
    } else if (!watcher.renewing && (watcher.renew_at <= now || !LookedAtAll(watcher))) {
      Renew(id, watcher);
    } else if (watcher.visible != nullptr && state_ != before) {
      Offer(watcher);
    }
  }
}

bool QueueWatch::LookedAtAll(const Watcher& watcher) const {
  return std::includes(watcher.looked_at.begin(), watcher.looked_at.end(),
                       state_->namespaces.begin(), state_->namespaces.end());
}

void QueueWatch::Renew(uint64_t id, Watcher& watcher) {
  watcher.renewing = true;
  dependencies_.identity.Identify(
      watcher.stream->credentials(),
      alive_.Wrap([this, id](const absl::StatusOr<std::shared_ptr<const Caller>>& caller) {
        if (caller.ok()) {
          OnCaller(id, *caller);
        } else {
          OnVisible(id, caller.status());
        }
      }));
}

void QueueWatch::OnCaller(uint64_t id, const std::shared_ptr<const Caller>& caller) {
  Watcher* watcher = Find(id);
  if (watcher == nullptr) {
    return;
  }
  if (const absl::Status room = watcher->call->BelongTo(caller); !room.ok()) {
    watcher->stream->End(room);
    return;
  }
  // Only now: a stranger's call costs no look at the jobs.
  if (state_ == nullptr && !Capture()) {
    watcher->stream->End(NotLeadingError(dependencies_.plane));
    return;
  }
  watcher->looked_at = state_->namespaces;
  const std::string& only = watcher->stream->filter().namespace_name;
  if (only.empty()) {
    FindVisibleNamespaces(dependencies_.access, caller, watcher->looked_at,
                          alive_.Wrap([this, id](const absl::StatusOr<VisibleNamespaces>& visible) {
                            OnVisible(id, visible);
                          }));
    return;
  }
  dependencies_.access.Review(caller, {.verb = "list", .namespace_name = only},
                              alive_.Wrap([this, id, only](const absl::Status& status) {
                                if (!status.ok()) {
                                  OnVisible(id, status);
                                  return;
                                }
                                VisibleNamespaces visible;
                                visible.names.insert(only);
                                OnVisible(id, visible);
                              }));
}

void QueueWatch::OnVisible(uint64_t id, const absl::StatusOr<VisibleNamespaces>& visible) {
  Watcher* watcher = Find(id);
  if (watcher == nullptr) {
    return;
  }
  if (!visible.ok()) {
    watcher->stream->End(visible.status());
    return;
  }
  watcher->renewing = false;
  watcher->renew_at = dependencies_.clock.SteadyNow() + options_.renew_period;
  if (watcher->visible == nullptr || watcher->visible->all != visible->all ||
      watcher->visible->names != visible->names) {
    watcher->visible = std::make_shared<const VisibleNamespaces>(*visible);
  }
  Offer(*watcher);
}

void QueueWatch::Offer(const Watcher& watcher) {
  Latest& latest = *watcher.latest;
  {
    absl::MutexLock lock(&latest.mutex);
    latest.visible = watcher.visible;
    if (std::exchange(latest.state, state_) != nullptr) {
      return;  // it is on its way
    }
  }
  dependencies_.turns.Post(
      watcher.call->caller()->key,
      [call = watcher.call, stream = watcher.stream, to_tell = watcher.latest] {
        std::shared_ptr<const QueueState> state;
        std::shared_ptr<const VisibleNamespaces> visible;
        {
          absl::MutexLock lock(&to_tell->mutex);
          state = std::exchange(to_tell->state, nullptr);
          visible = to_tell->visible;
        }
        stream->Offer(std::move(state), std::move(visible));
      });
}

QueueWatch::Watcher* QueueWatch::Find(uint64_t id) {
  const auto found = watchers_.find(id);
  return found == watchers_.end() || found->second.stream->ended() ? nullptr : &found->second;
}

}  // namespace asterism::controller
