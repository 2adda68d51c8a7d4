// File: kube/event_recorder.h
//
// Tells people what happened to an object: Events of events.k8s.io/v1. A repeat becomes a series
// (a count) instead of another object. Nothing may be readable only here: events expire.
//
//   events.Record({.regarding = {"asterism.dev/v1alpha1", "TrainingJob", "research", "llama", uid},
//                  .reason = "Placed", .action = "Placed", .note = "64 pods on 64 nodes"});
//
// Bounds: 25 events an object and one more each 5 minutes; 20 a second in all; 1,000 waiting;
// 4,096 known series. What is over is dropped and counted
// (asterism_events_total{result="dropped"}).
// Rules of series: client-go tools/events/event_broadcaster.go, but the note is part of the key: an
// event's note cannot be changed later, and a fact with other numbers must not read as the old one.
//
// Thread-safety: lives on one executor. Cost: a hash look-up; one request at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/metrics.h"
#include "base/strings.h"
#include "kube/client.h"
#include "kube/token_bucket.h"

namespace asterism::kube {

struct ObjectReference {
  std::string api_version;
  std::string kind;
  std::string namespace_name;
  std::string name;
  std::string uid;

  bool operator==(const ObjectReference&) const = default;
};

struct EventRecord {
  ObjectReference regarding;
  bool warning = false;
  std::string reason;  // CamelCase, of a closed list
  std::string action;
  std::string note;  // at most 1 kB; longer ones are cut
  ObjectReference related;
};

struct EventRecorderOptions {
  std::string reporting_controller;
  std::string reporting_instance;
  double object_burst = 25;
  absl::Duration object_refill = absl::Minutes(5);
  double events_per_second = 20;
  size_t waiting_max = 1000;
  size_t series_max = 4096;
  int tries_max = 12;
  absl::Duration retry_period = absl::Seconds(10);
  absl::Duration series_idle_end = absl::Minutes(6);
  absl::Duration series_refresh = absl::Minutes(30);
};

class EventRecorder {
 public:
  EventRecorder(const base::Clock& clock, base::Executor& executor, Client& client,
                base::MetricRegistry& registry, EventRecorderOptions options);

  void Record(EventRecord record);
  size_t waiting() const { return waiting_.size(); }

 private:
  struct Series {
    EventRecord record;
    std::string name;  // of the Event object
    absl::Time first_seen;
    absl::Time last_seen;
    base::SteadyTime last_seen_steady;
    base::SteadyTime last_written;
    int32_t count = 1;
    int32_t written_count = 0;  // 0: the object does not exist yet
    bool queued = false;
    int tries = 0;
  };

  std::string KeyOf(const EventRecord& record) const;
  bool Allow(const ObjectReference& object);
  void Enqueue(const std::string& key, Series& series);
  void Pump();
  void Write(const std::string& key, const Series& series);
  void OnWritten(const std::string& key, int32_t count, const absl::Status& status);
  void Sweep();
  void ForgetOldest();
  std::string CreateBody(const Series& series) const;
  std::string SeriesBody(const Series& series) const;
  std::string NewName(const EventRecord& record);

  const base::Clock& clock_;
  base::Executor& executor_;
  Client& client_;
  const EventRecorderOptions options_;
  base::CounterFamily& counters_;
  base::Counter& written_;
  base::Counter& dropped_;
  base::Counter& failed_;

  base::StringMap<Series> series_;
  base::StringMap<TokenBucket> buckets_;
  TokenBucket global_bucket_;
  std::deque<std::string> waiting_;  // keys of series
  bool writing_ = false;
  uint64_t names_ = 0;
  base::OwnedTimer pump_timer_;
  base::OwnedTimer sweep_timer_;
  base::Alive alive_;
};

}  // namespace asterism::kube
