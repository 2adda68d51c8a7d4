// What a cluster keeps of its calibrations, and that earlier measurements are not forgotten.

#include "planner/calibration_set.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/model_presets.h"
#include "planner/plan_answer.h"
#include "planner/time_model.h"

namespace asterism::planner {
namespace {

using ::testing::HasSubstr;

ClusterSpec HopperNodes() {
  return {.gpu = *FindGpu("H100"),
          .levels = {{.name = "node", .gpus = 8, .gigabytes_per_second = 450, .latency_us = 3},
                     {.name = "all", .gpus = 4096, .gigabytes_per_second = 50, .latency_us = 14}}};
}

// A job of one model on `tensor` x 8 GPUs.
struct Job {
  ModelSpec model;
  ParallelPlan plan;
  ClusterSpec cluster = HopperNodes();

  Job(std::string_view preset, int64_t tensor, int64_t micro_batch)
      : model(*FindModelPreset(preset)) {
    plan.degrees = {.tensor = tensor, .data = 8};
    plan.micro_batch = micro_batch;
    plan.global_batch = 256;
    plan.sequence = 8192;
  }
  double Seconds(const TimeConstants& constants) const {
    return EstimateTime(model, plan, cluster, ProfileOf(Runtime::kMegatron), constants).Seconds();
  }
  TimePoint Measured(double seconds) const {
    return {&model, &plan, &cluster, &ProfileOf(Runtime::kMegatron), seconds};
  }
};

TEST(CalibrationSet, KeptConstantsHoldForTheirGpuAndFrameworkOnly) {
  CalibrationSet kept;
  TimeConstants fitted = ShippedConstantsOf("H100");
  fitted.product_efficiency = 0.7;
  kept.Put("H100.MegatronLM", {.version = 3, .constants = fitted, .points = {}});
  const TablesInForce own = TablesFor(kept, "H100", Framework::kMegatron);
  EXPECT_EQ(own.constants, fitted);
  EXPECT_EQ(own.version, std::string(kTimeTablesVersion) + "+H100.MegatronLM.3");
  for (const auto& [gpu, framework] :
       {std::pair("H200", Framework::kMegatron), std::pair("H100", Framework::kDeepSpeed),
        std::pair("H100", Framework::kTorchTitan)}) {
    const TablesInForce other = TablesFor(kept, gpu, framework);
    EXPECT_EQ(other.constants, ShippedConstantsOf(gpu)) << gpu;
    EXPECT_EQ(other.version, kTimeTablesVersion) << gpu;
  }
}

TEST(CalibrationSet, KeysAreThoseOfGpusAndFrameworks) {
  EXPECT_EQ(CalibrationKey("A100-80", Framework::kAccelerate), "A100-80.FSDP");
  EXPECT_EQ(CalibrationKey("H100", Framework::kTorchTitan), std::nullopt);
  const auto subject = SubjectOfKey("A100-80.FSDP");
  ASSERT_TRUE(subject.has_value());
  EXPECT_EQ(subject->gpu, "A100-80");
  EXPECT_EQ(subject->framework, Framework::kAccelerate);
  for (const char* key : {"", ".", "H100", "H100.", "H100.TorchRun", "H1000.FSDP", "H100.FSDP.1"}) {
    EXPECT_FALSE(SubjectOfKey(key).has_value()) << key;
  }
}

TEST(CalibrationSet, ConstantsBeyondBeliefAreNamed) {
  EXPECT_TRUE(CheckConstants(ShippedConstantsOf("H100"), "H100").ok());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double factor : {0.1, 6.0, -1.0, 0.0, nan, 1e300}) {
    TimeConstants constants = ShippedConstantsOf("H100");
    constants.half_width *= factor;
    EXPECT_THAT(std::string(CheckConstants(constants, "H100").message()),
                HasSubstr("constants.halfWidth"))
        << factor;
  }
  TimeConstants fast = ShippedConstantsOf("H100");
  fast.product_efficiency = 1.2;
  EXPECT_THAT(std::string(CheckConstants(fast, "H100").message()), HasSubstr("no GPU is faster"));
}

TEST(RememberedPoint, FollowsTheModelNearItsConstants) {
  const Job job("llama-3-70b", 8, 1);
  const TimeConstants from = ShippedConstantsOf("H100");
  const RememberedPoint point = RememberPoint(job.Measured(job.Seconds(from)), from);
  EXPECT_NEAR(point.log_error, 0, 1e-12);
  TimeConstants to = from;
  to.product_efficiency *= 1.1;
  to.exposed_exchange *= 0.9;
  EXPECT_NEAR(MovePoint(point, from, to).log_error, std::log(job.Seconds(to) / job.Seconds(from)),
              0.01);
}

// The acceptance of the reference: the next prediction of a measured job is better, and no other
// job that was measured leaves its interval, however far the new one was off.
TEST(RememberedPoint, ANewJobDoesNotPushEarlierOnesOutOfTheirInterval) {
  const TimeConstants shipped = ShippedConstantsOf("H100");
  const std::vector<Job> earlier = {Job("llama-3-8b", 1, 1), Job("llama-3-8b", 2, 2),
                                    Job("llama-3-70b", 8, 1), Job("llama-3-70b", 4, 2)};
  std::vector<TimePoint> points;
  for (const Job& job : earlier) {
    points.push_back(job.Measured(1.08 * job.Seconds(shipped)));
  }
  const TimeConstants first = CalibrateTime(points, shipped);
  std::vector<RememberedPoint> known;
  for (size_t i = 0; i < points.size(); ++i) {
    known.push_back(RememberPoint(points[i], first));
    EXPECT_LT(std::abs(known.back().log_error), 0.04);
  }
  const Job other("llama-3-70b", 8, 4);
  const std::vector<TimePoint> next = {other.Measured(1.35 * other.Seconds(first))};
  const TimeConstants forgetful = CalibrateTime(next, first);
  const TimeConstants second = CalibrateTime(next, first, known);
  EXPECT_LT(std::abs(std::log(other.Seconds(second) / next[0].measured_seconds)),
            std::abs(std::log(other.Seconds(first) / next[0].measured_seconds)));
  double worst = 0;
  double worst_forgetful = 0;
  for (const TimePoint& point : points) {
    const auto error = [&](const TimeConstants& constants) {
      return std::abs(
          EstimateTime(*point.model, *point.plan, *point.cluster, *point.profile, constants)
                  .Seconds() /
              point.measured_seconds -
          1);
    };
    worst = std::max(worst, error(second));
    worst_forgetful = std::max(worst_forgetful, error(forgetful));
  }
  EXPECT_LE(worst, kTimeErrorCalibrated);
  EXPECT_GT(worst_forgetful, kTimeErrorCalibrated) << "the case shows nothing";
}

}  // namespace
}  // namespace asterism::planner
