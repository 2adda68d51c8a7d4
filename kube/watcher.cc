#include "kube/watcher.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "kube/api_error.h"
#include "kube/resource_version.h"

namespace asterism::kube {
namespace {

constexpr std::string_view kInitialEventsEnd = "k8s.io/initial-events-end";
constexpr absl::Duration kShortWatch = absl::Seconds(1);
// A watch that has lived so long and brought something works.
constexpr absl::Duration kProvenWatch = absl::Seconds(5);

std::string Text(const absl::Status& status) {
  return std::string(status.message());
}

// The server does not know this kind of request; asking again will not help.
bool IsUnsupported(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsUnimplemented(status);
}

bool MayPass(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status) ||
         absl::IsInternal(status);
}

}  // namespace

// One stream, on the source's thread: decodes and posts. It outlives the watcher where the source
// needs it, and touches nothing of it.
class Watcher::Session final : public WatchHandler {
 public:
  using Deliver = std::function<void(std::vector<Event>)>;
  using End = std::function<void(absl::Status)>;

  Session(base::Executor& executor, ObjectDecoder decode, Deliver deliver, End end)
      : executor_(executor),
        decode_(std::move(decode)),
        deliver_(std::move(deliver)),
        end_(std::move(end)) {}

  void OnEvent(WatchEventType type, const RawObject& object) override {
    Event event;
    event.type = type;
    absl::Status status = type == WatchEventType::kBookmark ? ReadBookmark(object, event)
                          : type == WatchEventType::kError  ? absl::OkStatus()
                                                            : ReadObject(object, event);
    if (type == WatchEventType::kError) {
      event.error = ErrorFromStatusObject(object);
    } else if (!status.ok()) {
      event.type = WatchEventType::kError;
      event.error = absl::InternalError(fmt::format("unreadable watch event: {}", Text(status)));
    }
    events_.push_back(std::move(event));
  }

  void OnBatchEnd() override {
    if (!events_.empty()) {
      executor_.Post([deliver = deliver_, events = std::move(events_)]() mutable {
        deliver(std::move(events));
      });
      events_.clear();
    }
  }

  void OnEnd(absl::Status status) override {
    OnBatchEnd();
    executor_.Post([end = end_, status = std::move(status)] { end(status); });
  }

 private:
  absl::Status ReadObject(const RawObject& object, Event& event) const {
    ASSIGN_OR_RETURN(event.object, decode_(object));
    return absl::OkStatus();
  }

  static absl::Status ReadBookmark(const RawObject& object, Event& event) {
    ASSIGN_OR_RETURN(const ObjectMeta meta, DecodeMeta(object));
    event.object.resource_version = meta.resource_version;
    event.initial_events_end = meta.Annotation(kInitialEventsEnd) == "true";
    return absl::OkStatus();
  }

  base::Executor& executor_;
  const ObjectDecoder decode_;
  const Deliver deliver_;
  const End end_;
  std::vector<Event> events_;
};

Watcher::Watcher(WatchSource& source, base::Executor& executor, const base::Clock& clock,
                 base::Rng rng, ResourceType type, WatchOptions options, ObjectDecoder decode,
                 WatchSink& sink, WatcherTuning tuning)
    : source_(source),
      executor_(executor),
      clock_(clock),
      rng_(rng),
      type_(type),
      options_(std::move(options)),
      decode_(std::move(decode)),
      sink_(sink),
      tuning_(tuning),
      watch_list_(tuning.watch_list),
      last_activity_(clock.SteadyNow()),
      retry_timer_(executor),
      silence_timer_(executor),
      alive_(std::make_unique<base::Alive>()) {}

Watcher::~Watcher() {
  Stop();
}

void Watcher::Start() {
  if (running_) {
    return;
  }
  running_ = true;
  need_list_ = true;
  list_version_ = resource_version_;
  Touch();
  Next();
}

void Watcher::Stop() {
  running_ = false;
  EndStream();
  retry_timer_.Cancel();
}

void Watcher::Resync() {
  Stop();
  running_ = true;
  need_list_ = true;
  list_version_.clear();
  Touch();
  Next();
}

void Watcher::EndStream() {
  ++session_;
  stream_.reset();
  silence_timer_.Cancel();
}

void Watcher::Next() {
  if (!running_) {
    return;
  }
  EndStream();
  if (!need_list_) {
    OpenWatch(/*initial_events=*/false);
  } else if (watch_list_ && !list_once_) {
    OpenWatch(/*initial_events=*/true);
  } else {
    continue_token_.clear();
    sink_.Init();
    OpenList();
  }
}

absl::StatusOr<Watcher::Page> Watcher::DecodePage(const ObjectDecoder& decode,
                                                  absl::StatusOr<Reply> reply) {
  RETURN_IF_ERROR(reply.status());
  ASSIGN_OR_RETURN(const ListPage list, ListPageOf(*reply));
  Page page;
  page.resource_version = list.resource_version;
  page.continue_token = list.continue_token;
  page.objects.reserve(list.items.size());
  for (const RawObject& item : list.items) {
    ASSIGN_OR_RETURN(DecodedObject object, decode(item));
    page.objects.push_back(std::move(object));
  }
  return page;
}

void Watcher::OpenList() {
  ListRequest request;
  request.namespace_name = options_.namespace_name;
  request.label_selector = options_.label_selector;
  request.field_selector = options_.field_selector;
  request.continue_token = continue_token_;
  request.resource_version = list_version_;
  // With a resourceVersion the server answers from its cache, which has no pages.
  if (page_limit_ && list_version_.empty()) {
    request.limit = tuning_.page_size;
  }
  auto deliver = alive_->Wrap([this, session = session_](absl::StatusOr<Page> page) {
    if (session == session_ && running_) {
      OnPage(std::move(page));
    }
  });
  source_.List(type_, std::move(request),
               [&executor = executor_, decode = decode_,
                deliver = std::move(deliver)](absl::StatusOr<Reply> reply) mutable {
                 executor.Post([deliver = std::move(deliver),
                                page = DecodePage(decode, std::move(reply))]() mutable {
                   deliver(std::move(page));
                 });
               });
}

void Watcher::OnPage(absl::StatusOr<Page> page) {
  if (!page.ok()) {
    OnListFailed(page.status());
    return;
  }
  Touch();
  const uint64_t session = session_;
  for (DecodedObject& object : page->objects) {
    NoteUnreadable(object);
    sink_.InitApply(std::move(object));
    if (session != session_) {
      return;
    }
  }
  continue_token_ = std::move(page->continue_token);
  if (!continue_token_.empty()) {
    OpenList();
    return;
  }
  FinishInit(std::move(page->resource_version));
  Next();
}

void Watcher::OnListFailed(const absl::Status& status) {
  if (IsExpired(status) || IsTooLargeResourceVersion(status)) {
    stats_.expired += IsExpired(status) ? 1 : 0;
    if (!continue_token_.empty()) {
      page_limit_ = false;  // pages took too long: ask for everything at once
      Next();
      return;
    }
    if (!list_version_.empty()) {
      list_version_.clear();
      Next();
      return;
    }
  }
  list_once_ = false;
  BackOff(status);
}

void Watcher::FinishInit(std::string resource_version) {
  ++stats_.lists;
  resource_version_ = std::move(resource_version);
  list_version_.clear();
  need_list_ = false;
  list_once_ = false;
  page_limit_ = true;
  watch_list_failures_ = 0;
  initial_phase_ = false;
  synced_ = true;
  proven_ = true;
  sink_.InitDone();
}

void Watcher::OpenWatch(bool initial_events) {
  WatchRequest request;
  request.namespace_name = options_.namespace_name;
  request.label_selector = options_.label_selector;
  request.field_selector = options_.field_selector;
  request.resource_version = initial_events ? list_version_ : resource_version_;
  request.send_initial_events = initial_events;
  request.timeout =
      tuning_.timeout_min + (tuning_.timeout_max - tuning_.timeout_min) * rng_.Uniform();
  initial_phase_ = initial_events;
  ++stats_.watches;
  stream_events_ = 0;
  stream_opened_ = clock_.SteadyNow();
  Touch();
  silence_timer_.Start(tuning_.silence_max, [this] { OnSilence(); });
  if (initial_events) {
    sink_.Init();
  }
  const uint64_t session = session_;
  auto deliver = alive_->Wrap([this, session](std::vector<Event> events) {
    if (session == session_) {
      OnEvents(std::move(events));
    }
  });
  auto end = alive_->Wrap([this, session](absl::Status status) {
    if (session == session_) {
      OnStreamEnd(std::move(status));
    }
  });
  stream_ = source_.Watch(
      type_, std::move(request),
      std::make_shared<Session>(executor_, decode_, std::move(deliver), std::move(end)));
}

void Watcher::OnEvents(std::vector<Event> events) {
  Touch();
  const uint64_t session = session_;
  for (Event& event : events) {
    ++stream_events_;
    OnEvent(event);
    if (session != session_) {
      return;  // the stream has ended, or the sink has stopped us
    }
  }
}

void Watcher::OnEvent(Event& event) {
  switch (event.type) {
    case WatchEventType::kError:
      OnStreamEnd(event.error);
      return;
    case WatchEventType::kBookmark:
      if (!initial_phase_) {
        resource_version_ = event.object.resource_version;
      } else if (event.initial_events_end) {
        FinishInit(event.object.resource_version);
      }
      return;
    case WatchEventType::kAdded:
    case WatchEventType::kModified:
      NoteUnreadable(event.object);
      if (initial_phase_) {
        // Versions are not in order yet, so the last seen one does not move.
        sink_.InitApply(std::move(event.object));
      } else {
        resource_version_ = event.object.resource_version;
        sink_.Apply(std::move(event.object));
      }
      return;
    case WatchEventType::kDeleted:
      if (initial_phase_) {
        sink_.InitDelete(std::move(event.object));
      } else {
        resource_version_ = event.object.resource_version;
        sink_.Delete(std::move(event.object));
      }
      return;
  }
}

void Watcher::OnStreamEnd(absl::Status status) {
  const bool short_watch =
      status.ok() && stream_events_ == 0 && clock_.SteadyNow() - stream_opened_ < kShortWatch;
  proven_ |= stream_events_ > 0 && clock_.SteadyNow() - stream_opened_ > kProvenWatch;
  if (short_watch) {
    status = absl::UnavailableError("very short watch: closed within a second without an event");
  }
  if (initial_phase_) {
    OnWatchListEnd(status);
  } else {
    OnWatchEnd(status);
  }
}

void Watcher::OnWatchListEnd(const absl::Status& status) {
  initial_phase_ = false;
  if (IsExpired(status) || IsTooLargeResourceVersion(status)) {
    stats_.expired += IsExpired(status) ? 1 : 0;
    if (!list_version_.empty()) {
      list_version_.clear();
      Next();
      return;
    }
  }
  if (IsUnsupported(status)) {
    base::LogInfo("watch_list_unsupported", {{"resource", type_.plural}, {"error", Text(status)}});
    watch_list_ = false;
    Next();
    return;
  }
  // What may pass is tried again; a classic list takes turns with it.
  ++watch_list_failures_;
  list_once_ = !MayPass(status) || watch_list_failures_ % 2 == 0;
  BackOff(status.ok() ? absl::UnavailableError("WatchList ended before it was complete") : status);
}

void Watcher::OnWatchEnd(const absl::Status& status) {
  if (IsExpired(status)) {
    Expired();
    return;
  }
  if (IsUnsupported(status)) {
    Relist();  // it does not like our resourceVersion
    BackOff(status);
    return;
  }
  const base::SteadyTime now = clock_.SteadyNow();
  if (!absl::IsInternal(status)) {
    internal_errors_since_ = now;
  } else if (stream_events_ > 0) {
    internal_errors_since_ = now;
  } else if (now - internal_errors_since_ > tuning_.internal_errors_max) {
    internal_errors_since_ = now;
    Relist();
  }
  if (status.ok()) {
    Next();
  } else {
    BackOff(status);
  }
}

void Watcher::Expired() {
  ++stats_.expired;
  base::LogInfo("watch_expired", {{"resource", type_.plural}, {"version", resource_version_}});
  Relist();
  // A server that answers 410 to everything must not be asked in a tight loop.
  const base::SteadyTime now = clock_.SteadyNow();
  const bool again = last_expired_.has_value() && now - *last_expired_ < tuning_.backoff_first;
  last_expired_ = now;
  if (again && stream_events_ == 0) {
    BackOff(absl::OutOfRangeError("resourceVersion expired again"));
  } else {
    Next();
  }
}

void Watcher::Relist() {
  need_list_ = true;
  list_version_ = resource_version_;
}

void Watcher::BackOff(const absl::Status& status) {
  EndStream();
  ++stats_.errors;
  const base::SteadyTime now = clock_.SteadyNow();
  const ErrorDetails details = GetErrorDetails(status);
  if (proven_ || now - last_backoff_ > tuning_.backoff_reset || backoff_ == absl::ZeroDuration()) {
    backoff_ = tuning_.backoff_first;
  } else if (!details.retry_after) {
    // A server that answers with errors is spared; one that is away is asked often, for its return
    // must not find us blind.
    const bool away = details.http_code == 0;
    backoff_ = std::min(backoff_ * 2, away ? tuning_.backoff_away_max : tuning_.backoff_max);
  }
  proven_ = false;
  last_backoff_ = now;
  // A server that says when wants nothing else; the jitter keeps its clients apart.
  const absl::Duration delay = details.retry_after
                                   ? *details.retry_after + tuning_.backoff_first * rng_.Uniform()
                                   : backoff_ * (1 + rng_.Uniform());
  base::LogWarning("watch_retry", {{"resource", type_.plural},
                                   {"in_ms", absl::ToInt64Milliseconds(delay)},
                                   {"error", Text(status)}});
  retry_timer_.Start(delay, [this] { Next(); });
}

void Watcher::OnSilence() {
  const absl::Duration silent = SilentFor();
  if (silent < tuning_.silence_max) {
    silence_timer_.Start(tuning_.silence_max - silent, [this] { OnSilence(); });
    return;
  }
  ++stats_.silent;
  OnStreamEnd(absl::UnavailableError("the watch brought nothing, not even a bookmark"));
}

void Watcher::Touch() {
  last_activity_ = clock_.SteadyNow();
}

void Watcher::NoteUnreadable(const DecodedObject& object) {
  if (object.object == nullptr) {
    ++stats_.unreadable;
  }
}

}  // namespace asterism::kube
