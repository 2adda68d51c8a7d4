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
  EXPECT_EQ(reports.Find("pod", "gpu-0")->first_heard, Second(10));
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
    reports.Put("pod-" + std::to_string(i), Step(1), Second(10));
    reports.Put("kept", Step(i), Second(10));
  }
  EXPECT_EQ(reports.size(), 32'768U);
  EXPECT_EQ(reports.Find("pod-0", "gpu-0"), nullptr);
  EXPECT_NE(reports.Find("kept", "gpu-0"), nullptr);
  EXPECT_NE(reports.Find("pod-32799", "gpu-0"), nullptr);
}

}  // namespace
}  // namespace asterism::operators
