// File: base/metrics.h
//
// Counters, gauges and histograms for /metrics. Each program declares its families once in its own
// metrics.h; tests make a registry of their own and read it back.
//
//   MetricRegistry registry;
//   CounterFamily& calls = registry.AddCounter("asterism_extender_calls_total", "Calls.",
//   {"verb"}); calls.With({"filter"}).Add(); std::string page = registry.Expose();
//
// Label values must come from a closed set: never pod names or UIDs. A family refuses more than
// 1,000 label sets and counts what it refused under the label value "other".
// Thread-safety: yes. Cost: Add/Set/Observe on a kept reference are lock-free; With takes a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace asterism::base {

class Counter {
 public:
  void Add(uint64_t count = 1) { value_.fetch_add(count, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class Gauge {
 public:
  void Set(double value) { value_.store(value, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

// Logarithmic buckets from 1 us to about 1,100 s: upper bounds 1e-6 * 2^i seconds, i = 0..30.
class Histogram {
 public:
  static constexpr size_t kBuckets = 31;

  void Observe(absl::Duration duration);
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  double sum_seconds() const;
  uint64_t bucket(size_t index) const { return buckets_[index].load(std::memory_order_relaxed); }
  static double UpperBoundSeconds(size_t index);

 private:
  std::array<std::atomic<uint64_t>, kBuckets + 1> buckets_{};  // the last one is +Inf
  std::atomic<uint64_t> count_{0};
  std::atomic<uint64_t> sum_nanos_{0};
};

// All metrics of one name, one for each combination of label values.
template <typename Metric>
class MetricFamily {
 public:
  static constexpr size_t kMaxLabelSets = 1000;

  MetricFamily(std::string name, std::string help, std::vector<std::string> labels)
      : name_(std::move(name)), help_(std::move(help)), labels_(std::move(labels)) {}

  // `values` has one entry a label, in the order of the declaration. The reference stays valid.
  Metric& With(std::vector<std::string> values);

  const std::string& name() const { return name_; }
  const std::string& help() const { return help_; }
  const std::vector<std::string>& labels() const { return labels_; }
  // Calls visit(values, metric) in the order of the values.
  template <typename Visit>
  void ForEach(Visit visit) const {
    absl::MutexLock lock(&mutex_);
    for (const auto& [values, metric] : metrics_) {
      visit(values, *metric);
    }
  }

 private:
  const std::string name_;
  const std::string help_;
  const std::vector<std::string> labels_;
  mutable absl::Mutex mutex_;
  std::map<std::vector<std::string>, std::unique_ptr<Metric>> metrics_ ABSL_GUARDED_BY(mutex_);
};

using CounterFamily = MetricFamily<Counter>;
using GaugeFamily = MetricFamily<Gauge>;
using HistogramFamily = MetricFamily<Histogram>;

// For a gauge that is worked out anew each time: what `now` does not name becomes 0.
void SetAll(GaugeFamily& family, const std::map<std::vector<std::string>, double>& now);

// A declared metric, for documents.
struct MetricDescription {
  std::string name;
  std::string_view type;  // as Prometheus calls it
  std::vector<std::string> labels;
  std::string help;
};

class MetricRegistry {
 public:
  // References stay valid as long as the registry. A name is declared once (checked).
  CounterFamily& AddCounter(std::string name, std::string help,
                            std::vector<std::string> labels = {});
  GaugeFamily& AddGauge(std::string name, std::string help, std::vector<std::string> labels = {});
  HistogramFamily& AddHistogram(std::string name, std::string help,
                                std::vector<std::string> labels = {});

  // The Prometheus text format, counters, then gauges, then histograms.
  std::string Expose() const;
  // All that were declared, by name.
  std::vector<MetricDescription> Describe() const;

 private:
  void CheckNewName(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<CounterFamily>> counters_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<GaugeFamily>> gauges_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<HistogramFamily>> histograms_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace asterism::base
