#include "kube/event_recorder.h"

#include <algorithm>
#include <utility>

#include "base/cut_text.h"
#include "base/log.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace asterism::kube {
namespace {

constexpr size_t kMaxNote = 1000;
constexpr size_t kMaxBuckets = 4096;
constexpr absl::Duration kSweepPeriod = absl::Minutes(1);

std::string EventTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E6SZ", time, absl::UTCTimeZone());
}

nlohmann::json ReferenceJson(const ObjectReference& reference) {
  nlohmann::json json = {{"kind", reference.kind}, {"name", reference.name}};
  if (!reference.api_version.empty()) {
    json["apiVersion"] = reference.api_version;
  }
  if (!reference.namespace_name.empty()) {
    json["namespace"] = reference.namespace_name;
  }
  if (!reference.uid.empty()) {
    json["uid"] = reference.uid;
  }
  return json;
}

std::string Dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Events of cluster-scoped objects live in the namespace default.
std::string EventNamespace(const EventRecord& record) {
  const std::string& name = record.regarding.namespace_name;
  return name.empty() ? "default" : name;
}

std::string ObjectKey(const ObjectReference& object) {
  return fmt::format("{}/{}/{}/{}", object.kind, object.namespace_name, object.name, object.uid);
}

bool MayPassLater(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status) || absl::IsInternal(status);
}

}  // namespace

EventRecorder::EventRecorder(const base::Clock& clock, base::Executor& executor, Client& client,
                             base::MetricRegistry& registry, EventRecorderOptions options)
    : clock_(clock),
      executor_(executor),
      client_(client),
      options_(std::move(options)),
      counters_(registry.AddCounter("asterism_events_total",
                                    "Events for people: written, dropped by a limit, failed.",
                                    {"result"})),
      written_(counters_.With({"written"})),
      dropped_(counters_.With({"dropped"})),
      failed_(counters_.With({"failed"})),
      global_bucket_(clock, options_.events_per_second,
                     absl::Seconds(1) / options_.events_per_second),
      pump_timer_(executor),
      sweep_timer_(executor) {}

std::string EventRecorder::KeyOf(const EventRecord& record) const {
  return fmt::format("{}|{}|{}|{}|{}|{}", record.warning, record.reason, record.action,
                     ObjectKey(record.regarding), ObjectKey(record.related), record.note);
}

bool EventRecorder::Allow(const ObjectReference& object) {
  const std::string key = ObjectKey(object);
  auto found = buckets_.find(key);
  if (found == buckets_.end()) {
    if (buckets_.size() >= kMaxBuckets) {
      buckets_.clear();  // forgiving, and rare
    }
    found =
        buckets_.emplace(key, TokenBucket(clock_, options_.object_burst, options_.object_refill))
            .first;
  }
  return found->second.Take();
}

void EventRecorder::Record(EventRecord record) {
  record.note = base::CutText(record.note, kMaxNote);
  const std::string key = KeyOf(record);
  if (const auto known = series_.find(key); known != series_.end()) {
    Series& series = known->second;
    ++series.count;
    series.last_seen = clock_.Now();
    series.last_seen_steady = clock_.SteadyNow();
    // The first repeat is written at once; later ones wait for the sweep.
    if (series.count == 2) {
      Enqueue(key, series);
    }
    return;
  }
  if (!Allow(record.regarding) || waiting_.size() >= options_.waiting_max) {
    dropped_.Add();
    return;
  }
  if (series_.size() >= options_.series_max) {
    ForgetOldest();
  }
  Series series;
  series.name = NewName(record);
  series.record = std::move(record);
  series.first_seen = series.last_seen = clock_.Now();
  series.last_seen_steady = series.last_written = clock_.SteadyNow();
  Series& stored = series_.insert_or_assign(key, std::move(series)).first->second;
  Enqueue(key, stored);
  if (!sweep_timer_.pending()) {
    sweep_timer_.Start(kSweepPeriod, [this] { Sweep(); });
  }
}

std::string EventRecorder::NewName(const EventRecord& record) {
  // As kubectl expects it: the object's name, a dot, something unique.
  const auto nanos = static_cast<uint64_t>(absl::ToUnixNanos(clock_.Now()));
  return fmt::format("{}.{:x}", record.regarding.name.substr(0, 200), nanos + names_++);
}

void EventRecorder::ForgetOldest() {
  auto oldest = series_.end();
  for (auto entry = series_.begin(); entry != series_.end(); ++entry) {
    if (!entry->second.queued && (oldest == series_.end() || entry->second.last_seen_steady <
                                                                 oldest->second.last_seen_steady)) {
      oldest = entry;
    }
  }
  if (oldest != series_.end()) {
    series_.erase(oldest);
  }
}

void EventRecorder::Enqueue(const std::string& key, Series& series) {
  if (series.queued) {
    return;
  }
  if (waiting_.size() >= options_.waiting_max) {
    dropped_.Add();
    return;
  }
  series.queued = true;
  waiting_.push_back(key);
  Pump();
}

void EventRecorder::Pump() {
  if (writing_ || waiting_.empty() || pump_timer_.pending()) {
    return;
  }
  if (!global_bucket_.Take()) {
    pump_timer_.Start(global_bucket_.Wait(), [this] { Pump(); });
    return;
  }
  const std::string key = waiting_.front();
  waiting_.pop_front();
  const auto found = series_.find(key);
  if (found == series_.end()) {
    Pump();
    return;
  }
  writing_ = true;
  Write(key, found->second);
}

void EventRecorder::Write(const std::string& key, const Series& series) {
  auto done = alive_.Wrap([this, key, count = series.count](const absl::StatusOr<Reply>& reply) {
    OnWritten(key, count, reply.status());
  });
  const std::string namespace_name = EventNamespace(series.record);
  if (series.written_count == 0) {
    client_.Create(kEvents, namespace_name, CreateBody(series), {}, Lane::kWrite, std::move(done));
  } else {
    client_.Patch(kEvents, {namespace_name, series.name}, SeriesBody(series),
                  {.type = PatchType::kMerge}, std::move(done));
  }
}

void EventRecorder::OnWritten(const std::string& key, int32_t count, const absl::Status& status) {
  writing_ = false;
  const auto found = series_.find(key);
  if (found != series_.end()) {
    Series& series = found->second;
    series.queued = false;
    if (status.ok() || absl::IsAlreadyExists(status)) {
      written_.Add();
      series.written_count = count;
      series.last_written = clock_.SteadyNow();
      series.tries = 0;
      if (count == 1 && series.count > 1) {
        Enqueue(key, series);
      }
    } else if (absl::IsNotFound(status) && series.written_count > 0) {
      // The Event has expired, or somebody deleted it: begin a new one.
      series.written_count = 0;
      series.name = NewName(series.record);
      Enqueue(key, series);
    } else if (MayPassLater(status) && ++series.tries < options_.tries_max) {
      executor_.PostAfter(options_.retry_period, alive_.Wrap([this, key] {
        if (const auto again = series_.find(key); again != series_.end()) {
          Enqueue(key, again->second);
        }
      }));
    } else {
      failed_.Add();
      base::LogWarning("event_not_written", {{"reason", series.record.reason},
                                             {"object", series.record.regarding.name},
                                             {"error", std::string(status.message())}});
      series_.erase(found);
    }
  }
  Pump();
}

void EventRecorder::Sweep() {
  const base::SteadyTime now = clock_.SteadyNow();
  std::vector<std::string> ended;
  for (auto& [key, series] : series_) {
    const bool idle = now - series.last_seen_steady >= options_.series_idle_end;
    const bool behind = series.count > std::max(series.written_count, 1);
    if (behind && (idle || now - series.last_written >= options_.series_refresh)) {
      Enqueue(key, series);
    } else if (idle && !series.queued && !behind) {
      ended.push_back(key);
    }
  }
  for (const std::string& key : ended) {
    series_.erase(key);
  }
  if (!series_.empty()) {
    sweep_timer_.Start(kSweepPeriod, [this] { Sweep(); });
  }
}

std::string EventRecorder::CreateBody(const Series& series) const {
  const EventRecord& record = series.record;
  nlohmann::json body = {
      {"apiVersion", "events.k8s.io/v1"},
      {"kind", "Event"},
      {"metadata", {{"namespace", EventNamespace(record)}, {"name", series.name}}},
      {"eventTime", EventTime(series.first_seen)},
      {"reportingController", options_.reporting_controller},
      {"reportingInstance", base::CutText(options_.reporting_instance, 128)},
      {"action", record.action},
      {"reason", record.reason},
      {"regarding", ReferenceJson(record.regarding)},
      {"note", record.note},
      {"type", record.warning ? "Warning" : "Normal"}};
  if (!record.related.name.empty()) {
    body["related"] = ReferenceJson(record.related);
  }
  if (series.count > 1) {
    body["series"] = {{"count", series.count}, {"lastObservedTime", EventTime(series.last_seen)}};
  }
  return Dump(body);
}

std::string EventRecorder::SeriesBody(const Series& series) const {
  return Dump(
      {{"series", {{"count", series.count}, {"lastObservedTime", EventTime(series.last_seen)}}}});
}

}  // namespace asterism::kube
