#include "kube/testing/fake_watch.h"

#include <utility>

#include "base/check.h"
#include "fmt/format.h"
#include "kube/api_error.h"
#include "nlohmann/json.hpp"

namespace asterism::kube::testing {
namespace {

uint64_t ToVersion(const std::string& text) {
  return text.empty() ? 0 : std::stoull(text);
}

}  // namespace

class FakeWatches::Handle final : public WatchStream {
 public:
  explicit Handle(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  ~Handle() override { stream_->open = false; }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

 private:
  const std::shared_ptr<Stream> stream_;
};

FakeWatches::~FakeWatches() = default;

std::unique_ptr<WatchStream> FakeWatches::Open(const ResourceType& type,
                                               const WatchRequest& request, absl::Status refused,
                                               std::shared_ptr<WatchHandler> handler) {
  auto stream = std::make_shared<Stream>();
  stream->kind = FakeStore::KindKey(type);
  stream->kind_name = std::string(type.kind);
  stream->api_version = type.group.empty() ? std::string(type.version)
                                           : fmt::format("{}/{}", type.group, type.version);
  stream->namespace_name = request.namespace_name;
  stream->handler = std::move(handler);
  const absl::StatusOr<Selector> selector =
      Selector::Parse(request.label_selector, request.field_selector);
  if (refused.ok()) {
    refused = selector.status();
  }
  // The server looks at the request when it arrives.
  executor_.PostAfter(latency_, alive_.Wrap([this, stream, request, refused, selector] {
    if (!stream->open) {
      return;
    }
    if (!refused.ok()) {
      End(stream, refused);
      return;
    }
    stream->selector = *selector;
    const uint64_t from = ToVersion(request.resource_version);
    if (from > store_.version()) {
      End(stream, MakeApiError({.http_code = 504,
                                .reason = "Timeout",
                                .causes = {{"ResourceVersionTooLarge", "", ""}},
                                .retry_after = absl::Seconds(1)},
                               "Too large resource version"));
      return;
    }
    if (!request.send_initial_events && from != 0 && !store_.Knows(from)) {
      End(stream, MakeApiError({.http_code = 410, .reason = "Expired"},
                               fmt::format("too old resource version: {}", from)));
      return;
    }
    streams_.push_back(stream);
    QueueInitial(*stream, request);
    Pump(stream);
    ScheduleBookmark(stream);
    executor_.PostAfter(request.timeout,
                        alive_.Wrap([this, stream] { End(stream, absl::OkStatus()); }));
  }));
  return std::make_unique<Handle>(stream);
}

void FakeWatches::QueueInitial(Stream& stream, const WatchRequest& request) const {
  const uint64_t from = ToVersion(request.resource_version);
  if (request.send_initial_events || from == 0) {
    for (const auto& [key, object] : store_.All(stream.kind)) {
      if (Visible(stream, object)) {
        stream.pending.push_back({WatchEventType::kAdded, object.text});
      }
    }
    if (request.send_initial_events) {
      QueueBookmark(stream, /*initial_events_end=*/true);
    }
    return;
  }
  for (const StoreChange& change : store_.history()) {
    if (change.version > from) {
      QueueChange(stream, change);
    }
  }
}

bool FakeWatches::Visible(const Stream& stream, const std::optional<StoredObject>& object) const {
  if (!object.has_value()) {
    return false;
  }
  const nlohmann::json& metadata = object->object->at("metadata");
  return (stream.namespace_name.empty() ||
          metadata.value("namespace", "") == stream.namespace_name) &&
         stream.selector.Matches(*object->object);
}

void FakeWatches::QueueChange(Stream& stream, const StoreChange& change) const {
  if (change.kind != stream.kind) {
    return;
  }
  const bool was = Visible(stream, change.before);
  const bool is = Visible(stream, change.after);
  if (is) {
    stream.pending.push_back(
        {was ? WatchEventType::kModified : WatchEventType::kAdded, change.after->text});
  } else if (was) {
    // The object as it is now, even where it only left the selector.
    stream.pending.push_back({WatchEventType::kDeleted,
                              change.after.has_value() ? change.after->text : change.before->text});
  }
}

void FakeWatches::QueueBookmark(Stream& stream, bool initial_events_end) const {
  nlohmann::json object = {{"kind", stream.kind_name},
                           {"apiVersion", stream.api_version},
                           {"metadata", {{"resourceVersion", fmt::to_string(store_.version())}}}};
  if (initial_events_end) {
    object["metadata"]["annotations"]["k8s.io/initial-events-end"] = "true";
  }
  stream.pending.push_back(
      {WatchEventType::kBookmark, std::make_shared<const std::string>(object.dump())});
}

void FakeWatches::OnChange(const StoreChange& change) {
  Sweep();
  for (const StreamPointer& stream : streams_) {
    QueueChange(*stream, change);
    Pump(stream);
  }
}

void FakeWatches::Pump(const StreamPointer& stream) {
  if (held_ || stream->pump_posted || stream->pending.empty() || !stream->open) {
    return;
  }
  stream->pump_posted = true;
  executor_.PostAfter(latency_, alive_.Wrap([this, stream] {
    stream->pump_posted = false;
    if (held_ || !stream->open) {
      return;
    }
    std::deque<Pending> pending = std::move(stream->pending);
    stream->pending.clear();
    for (const Pending& event : pending) {
      stream->handler->OnEvent(event.type, RawObject{Encoding::kJson, *event.text});
    }
    stream->handler->OnBatchEnd();
  }));
}

void FakeWatches::End(const StreamPointer& stream, const absl::Status& status) {
  if (stream->open) {
    stream->open = false;
    stream->handler->OnEnd(status);
  }
}

void FakeWatches::Cut(std::string_view kind, const absl::Status& status) {
  const std::vector<StreamPointer> streams = streams_;
  for (const StreamPointer& stream : streams) {
    if (kind.empty() || stream->kind == kind) {
      End(stream, status);
    }
  }
  Sweep();
}

void FakeWatches::Hold(bool held) {
  held_ = held;
  for (const StreamPointer& stream : streams_) {
    Pump(stream);
  }
}

void FakeWatches::ScheduleBookmark(const StreamPointer& stream) {
  if (bookmark_period_ <= absl::ZeroDuration()) {
    return;
  }
  executor_.PostAfter(bookmark_period_, alive_.Wrap([this, stream] {
    if (stream->open) {
      QueueBookmark(*stream, /*initial_events_end=*/false);
      Pump(stream);
      ScheduleBookmark(stream);
    }
  }));
}

size_t FakeWatches::open() const {
  size_t count = 0;
  for (const StreamPointer& stream : streams_) {
    count += stream->open ? 1 : 0;
  }
  return count;
}

void FakeWatches::Sweep() {
  std::erase_if(streams_, [](const StreamPointer& stream) { return !stream->open; });
}

}  // namespace asterism::kube::testing
