#include "operator/worker_reports.h"

#include <gtest/gtest.h>

namespace asterism::operators {
namespace {

base::SteadyTime Second(int seconds) {
  return base::SteadyTime{} + absl::Seconds(seconds);
}

WorkerReport Step(int64_t step, std::string node = "gpu-0") {
  WorkerReport report;
  report.progress = WorkerProgress{.step = step};
  report.node = std::move(node);
  return report;
}

TEST(WorkerReports, KnowsWhenTheStepLastGrew) {
  WorkerReports reports;
  reports.Put("pod", Step(1), Second(10));
  EXPECT_EQ(reports.Find("pod", "gpu-0")->progressed, Second(10));
  reports.Put("pod", Step(1), Second(20));
  EXPECT_EQ(reports.Find("pod", "gpu-0")->progressed, Second(10));
  reports.Put("pod", Step(2), Second(30));
  EXPECT_EQ(reports.Find("pod", "gpu-0")->progressed, Second(30));
}

TEST(WorkerReports, KnowsSinceWhenALauncherSpeaks) {
  WorkerReports reports;
  WorkerReport report = Step(1);
  report.connected = true;
  reports.Put("pod", report, Second(10));
  reports.Put("pod", report, Second(20));
  EXPECT_EQ(reports.Find("pod", "gpu-0")->speaks_since, Second(10));
  EXPECT_EQ(reports.Heard("gpu-0"), Second(20));
  reports.Hear("gpu-0", Second(25));
  EXPECT_EQ(reports.Heard("gpu-0"), Second(25));
  // The agent is away and comes back: what happened meanwhile nobody knows.
  reports.Silence("gpu-0");
  EXPECT_EQ(reports.Find("pod", "gpu-0")->speaks_since, std::nullopt);
  reports.Put("pod", report, Second(90));
  EXPECT_EQ(reports.Find("pod", "gpu-0")->speaks_since, Second(90));
  EXPECT_EQ(reports.Find("pod", "gpu-0")->progressed, Second(10));
  // The launcher has ended.
  report.connected = false;
  reports.Put("pod", report, Second(91));
  EXPECT_EQ(reports.Find("pod", "gpu-0")->speaks_since, std::nullopt);
  reports.Silence("gpu-unknown");
  EXPECT_EQ(reports.Heard("gpu-unknown"), base::SteadyTime());
}

TEST(WorkerReports, AnotherNodeSpeaksForItselfOnly) {
  WorkerReports reports;
  reports.Put("pod", Step(1), Second(10));
  reports.Put("pod", Step(900, "gpu-1"), Second(10));
  EXPECT_EQ(reports.Find("pod", "gpu-0")->progress->step, 1);
  EXPECT_EQ(reports.Find("pod", "gpu-2"), nullptr);
  reports.Erase("pod", "gpu-0");
  EXPECT_EQ(reports.Find("pod", "gpu-0"), nullptr);
  EXPECT_EQ(reports.size(), 1U);
}

TEST(WorkerReports, IsBounded) {
  WorkerReports reports;
  for (int i = 0; i < 32'800; ++i) {
    const std::string node = "gpu-" + std::to_string(i % 32);
    reports.Put("pod-" + std::to_string(i), Step(1, node), Second(10));
    reports.Put("kept", Step(i), Second(10));
  }
  EXPECT_EQ(reports.size(), 32'768U);
  EXPECT_EQ(reports.Find("pod-0", "gpu-0"), nullptr);
  EXPECT_NE(reports.Find("kept", "gpu-0"), nullptr);
  EXPECT_NE(reports.Find("pod-32799", "gpu-31"), nullptr);
}

TEST(WorkerReports, ANodeThatFloodsPushesOutItsOwnOnly) {
  WorkerReports reports;
  for (int i = 0; i < 31'000; ++i) {
    reports.Put("pod-" + std::to_string(i), Step(1, "gpu-" + std::to_string(i % 100)), Second(10));
  }
  for (int i = 0; i < 100'000; ++i) {
    reports.Put("forged-" + std::to_string(i), Step(1, "liar"), Second(20));
  }
  // What the flood may take: the room that is left, and 2,048 less that.
  EXPECT_EQ(reports.size(), 32'768U);
  EXPECT_NE(reports.Find("pod-300", "gpu-0"), nullptr);
  EXPECT_EQ(reports.Find("forged-0", "liar"), nullptr);
  EXPECT_NE(reports.Find("forged-99999", "liar"), nullptr);
}

}  // namespace
}  // namespace asterism::operators
