#include "base/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "prometheus/metric_family.h"
#include "prometheus/text_serializer.h"

namespace asterism::base {
namespace {

std::vector<prometheus::ClientMetric::Label> Labels(const std::vector<std::string>& names,
                                                    const std::vector<std::string>& values) {
  std::vector<prometheus::ClientMetric::Label> labels;
  for (size_t i = 0; i < names.size(); ++i) {
    labels.push_back({names[i], values[i]});
  }
  return labels;
}

void Fill(prometheus::ClientMetric& out, const Counter& counter) {
  out.counter.value = static_cast<double>(counter.value());
}

void Fill(prometheus::ClientMetric& out, const Gauge& gauge) {
  out.gauge.value = gauge.value();
}

void Fill(prometheus::ClientMetric& out, const Histogram& histogram) {
  uint64_t cumulative = 0;
  for (size_t i = 0; i <= Histogram::kBuckets; ++i) {
    cumulative += histogram.bucket(i);
    out.histogram.bucket.push_back({cumulative, Histogram::UpperBoundSeconds(i)});
  }
  out.histogram.sample_count = cumulative;
  out.histogram.sample_sum = histogram.sum_seconds();
}

template <typename Metric>
prometheus::MetricFamily Convert(const MetricFamily<Metric>& family, prometheus::MetricType type) {
  prometheus::MetricFamily out;
  out.name = family.name();
  out.help = family.help();
  out.type = type;
  family.ForEach([&](const std::vector<std::string>& values, const Metric& metric) {
    prometheus::ClientMetric& client = out.metric.emplace_back();
    client.label = Labels(family.labels(), values);
    Fill(client, metric);
  });
  return out;
}

}  // namespace

void Histogram::Observe(absl::Duration duration) {
  // The upper end keeps the sum of an infinite duration an integer.
  const double seconds = std::clamp(absl::ToDoubleSeconds(duration), 0.0, 1e9);
  size_t index = 0;
  while (index < kBuckets && seconds > UpperBoundSeconds(index)) {
    ++index;
  }
  buckets_[index].fetch_add(1, std::memory_order_relaxed);
  count_.fetch_add(1, std::memory_order_relaxed);
  sum_nanos_.fetch_add(static_cast<uint64_t>(seconds * 1e9), std::memory_order_relaxed);
}

double Histogram::sum_seconds() const {
  return static_cast<double>(sum_nanos_.load(std::memory_order_relaxed)) * 1e-9;
}

double Histogram::UpperBoundSeconds(size_t index) {
  return index >= kBuckets ? std::numeric_limits<double>::infinity()
                           : std::ldexp(1e-6, static_cast<int>(index));
}

template <typename Metric>
Metric& MetricFamily<Metric>::With(std::vector<std::string> values) {
  CHECK_THAT(values.size() == labels_.size(), "one value a label");
  absl::MutexLock lock(&mutex_);
  if (metrics_.size() >= kMaxLabelSets && !metrics_.contains(values)) {
    std::fill(values.begin(), values.end(), "other");
  }
  std::unique_ptr<Metric>& metric = metrics_[std::move(values)];
  if (metric == nullptr) {
    metric = std::make_unique<Metric>();
  }
  return *metric;
}

template class MetricFamily<Counter>;
template class MetricFamily<Gauge>;
template class MetricFamily<Histogram>;

void SetAll(GaugeFamily& family, const std::map<std::vector<std::string>, double>& now) {
  family.ForEach([&](const std::vector<std::string>& values, Gauge& gauge) {
    if (!now.contains(values)) {
      gauge.Set(0);
    }
  });
  for (const auto& [values, value] : now) {
    family.With(values).Set(value);
  }
}

void MetricRegistry::CheckNewName(const std::string& name) {
  CHECK_THAT(std::find(names_.begin(), names_.end(), name) == names_.end(),
             "metric declared twice: " + name);
  names_.push_back(name);
}

CounterFamily& MetricRegistry::AddCounter(std::string name, std::string help,
                                          std::vector<std::string> labels) {
  absl::MutexLock lock(&mutex_);
  CheckNewName(name);
  counters_.push_back(
      std::make_unique<CounterFamily>(std::move(name), std::move(help), std::move(labels)));
  return *counters_.back();
}

GaugeFamily& MetricRegistry::AddGauge(std::string name, std::string help,
                                      std::vector<std::string> labels) {
  absl::MutexLock lock(&mutex_);
  CheckNewName(name);
  gauges_.push_back(
      std::make_unique<GaugeFamily>(std::move(name), std::move(help), std::move(labels)));
  return *gauges_.back();
}

HistogramFamily& MetricRegistry::AddHistogram(std::string name, std::string help,
                                              std::vector<std::string> labels) {
  absl::MutexLock lock(&mutex_);
  CheckNewName(name);
  histograms_.push_back(
      std::make_unique<HistogramFamily>(std::move(name), std::move(help), std::move(labels)));
  return *histograms_.back();
}

std::string MetricRegistry::Expose() const {
  std::vector<prometheus::MetricFamily> families;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& family : counters_) {
      families.push_back(Convert(*family, prometheus::MetricType::Counter));
    }
    for (const auto& family : gauges_) {
      families.push_back(Convert(*family, prometheus::MetricType::Gauge));
    }
    for (const auto& family : histograms_) {
      families.push_back(Convert(*family, prometheus::MetricType::Histogram));
    }
  }
  return prometheus::TextSerializer().Serialize(families);
}

std::vector<MetricDescription> MetricRegistry::Describe() const {
  std::vector<MetricDescription> all;
  const auto add = [&](const auto& families, std::string_view type) {
    for (const auto& family : families) {
      all.push_back({family->name(), type, family->labels(), family->help()});
    }
  };
  {
    absl::MutexLock lock(&mutex_);
    add(counters_, "counter");
    add(gauges_, "gauge");
    add(histograms_, "histogram");
  }
  std::sort(all.begin(), all.end(),
            [](const auto& left, const auto& right) { return left.name < right.name; });
  return all;
}

}  // namespace asterism::base
