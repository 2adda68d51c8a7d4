#include "base/metrics.h"

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::base {
namespace {

using testing::HasSubstr;

TEST(MetricRegistry, ExposesThePrometheusTextFormat) {
  MetricRegistry registry;
  registry.AddCounter("asterism_calls_total", "Calls.", {"verb"}).With({"filter"}).Add(3);
  registry.AddGauge("asterism_free_gpus", "Free GPUs.").With({}).Set(512);
  EXPECT_EQ(registry.Expose(),
            "# HELP asterism_calls_total Calls.\n"
            "# TYPE asterism_calls_total counter\n"
            "asterism_calls_total{verb=\"filter\"} 3\n"
            "# HELP asterism_free_gpus Free GPUs.\n"
            "# TYPE asterism_free_gpus gauge\n"
            "asterism_free_gpus 512\n");
}

TEST(MetricRegistry, HistogramBucketsAreCumulativeAndEndWithInf) {
  MetricRegistry registry;
  Histogram& latency = registry.AddHistogram("asterism_latency_seconds", "Latency.").With({});
  latency.Observe(absl::Microseconds(1));
  latency.Observe(absl::Microseconds(3));
  latency.Observe(absl::Hours(1));
  const std::string page = registry.Expose();
  EXPECT_THAT(page, HasSubstr("asterism_latency_seconds_count 3\n"));
  EXPECT_THAT(page, HasSubstr("asterism_latency_seconds_bucket{le=\"1e-06\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("asterism_latency_seconds_bucket{le=\"4e-06\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("asterism_latency_seconds_bucket{le=\"+Inf\"} 3\n"));
}

TEST(MetricRegistry, ListsLabelSetsInOrder) {
  MetricRegistry registry;
  CounterFamily& calls = registry.AddCounter("asterism_calls_total", "Calls.", {"verb"});
  calls.With({"prioritize"}).Add();
  calls.With({"filter"}).Add();
  const std::string page = registry.Expose();
  EXPECT_LT(page.find("filter"), page.find("prioritize"));
}

TEST(MetricRegistry, EscapesLabelValues) {
  MetricRegistry registry;
  registry.AddCounter("asterism_calls_total", "Calls.", {"verb"}).With({"a\"b\\c\nd"}).Add();
  EXPECT_THAT(registry.Expose(), HasSubstr(R"(verb="a\"b\\c\nd")"));
}

TEST(MetricRegistryDeathTest, RefusesANameTwiceAndAMissingLabel) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  MetricRegistry registry;
  CounterFamily& calls = registry.AddCounter("asterism_calls_total", "Calls.", {"verb"});
  EXPECT_DEATH(registry.AddGauge("asterism_calls_total", "Again."), "metric declared twice");
  EXPECT_DEATH(calls.With({}), "one value a label");
}

TEST(MetricFamily, GivesTheSameMetricForTheSameValues) {
  MetricRegistry registry;
  CounterFamily& calls = registry.AddCounter("asterism_calls_total", "Calls.", {"verb"});
  Counter& filter = calls.With({"filter"});
  calls.With({"filter"}).Add(2);
  for (int i = 0; i < 200; ++i) {
    calls.With({std::to_string(i)});
  }
  EXPECT_EQ(filter.value(), 2u);
}

TEST(MetricFamily, CountsTooManyLabelSetsAsOther) {
  MetricRegistry registry;
  CounterFamily& calls = registry.AddCounter("asterism_calls_total", "Calls.", {"verb"});
  for (size_t i = 0; i < CounterFamily::kMaxLabelSets + 50; ++i) {
    calls.With({std::to_string(i)}).Add();
  }
  size_t sets = 0;
  uint64_t other = 0;
  calls.ForEach([&](const std::vector<std::string>& values, const Counter& counter) {
    ++sets;
    other += values[0] == "other" ? counter.value() : 0;
  });
  EXPECT_EQ(sets, CounterFamily::kMaxLabelSets + 1);
  EXPECT_EQ(other, 50u);
  calls.With({"7"}).Add();
  EXPECT_EQ(calls.With({"7"}).value(), 2u);
}

TEST(Histogram, PutsAValueIntoTheFirstBucketThatHoldsIt) {
  for (size_t index = 0; index < Histogram::kBuckets; ++index) {
    Histogram histogram;
    histogram.Observe(absl::Seconds(Histogram::UpperBoundSeconds(index)));
    EXPECT_EQ(histogram.bucket(index), 1u) << "bucket " << index;
  }
}

TEST(Histogram, TakesNegativeAndHugeDurations) {
  Histogram histogram;
  histogram.Observe(-absl::Seconds(1));
  histogram.Observe(absl::Hours(24 * 365));
  histogram.Observe(absl::InfiniteDuration());
  EXPECT_EQ(histogram.count(), 3u);
  EXPECT_EQ(histogram.bucket(0), 1u);
  EXPECT_EQ(histogram.bucket(Histogram::kBuckets), 2u);
  EXPECT_TRUE(std::isinf(Histogram::UpperBoundSeconds(Histogram::kBuckets)));
}

TEST(Histogram, SumsInSeconds) {
  Histogram histogram;
  histogram.Observe(absl::Milliseconds(250));
  histogram.Observe(absl::Milliseconds(750));
  EXPECT_NEAR(histogram.sum_seconds(), 1.0, 1e-9);
}

TEST(Metrics, LoseNoCountBetweenThreads) {
  MetricRegistry registry;
  CounterFamily& calls = registry.AddCounter("asterism_calls_total", "Calls.", {"verb"});
  Histogram& latency = registry.AddHistogram("asterism_latency_seconds", "Latency.").With({});
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        calls.With({std::to_string(i % 3)}).Add();
        latency.Observe(absl::Microseconds(i));
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(registry.Expose().empty());
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  uint64_t total = 0;
  calls.ForEach(
      [&](const std::vector<std::string>&, const Counter& counter) { total += counter.value(); });
  EXPECT_EQ(total, 4000u);
  EXPECT_EQ(latency.count(), 4000u);
}

}  // namespace
}  // namespace asterism::base
