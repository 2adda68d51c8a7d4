// What Calibrate answers, and what of it is to be kept.

#include "controller/calibration_desk.h"

#include <cmath>

#include "controller/planner_desk.h"
#include "controller/planner_messages.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/plan_answer.h"
#include "test/controller/planner_questions.h"

namespace asterism::controller {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

const absl::Time kFitTime = absl::FromUnixSeconds(1'800'000'000);

v1::PlanQuestion SmallJob(int gpus, const std::string& gpu = "H100") {
  return PlanQuestionFor(gpus, {.model = "llama-3-8b", .gpu = gpu});
}

v1::ParallelPlan BestPlan(const v1::PlanQuestion& question,
                          const planner::CalibrationSet& kept = {}) {
  v1::PlanRequest request;
  *request.mutable_question() = question;
  auto response = AnswerPlanRequest(request, kept);
  EXPECT_TRUE(response.ok()) << response.status();
  return response->plans(0);
}

// A step of the best plan that took `factor` times what is predicted with the shipped constants.
void Measure(const v1::PlanQuestion& question, double factor, v1::CalibrateRequest& request) {
  const v1::ParallelPlan plan = BestPlan(question);
  v1::Measurement& measurement = *request.add_measurements();
  *measurement.mutable_question() = question;
  *measurement.mutable_launch()->mutable_arguments() = plan.arguments();
  measurement.set_step_seconds(factor * plan.step_seconds().value());
}

v1::CalibrateRequest MeasuredOn(const std::vector<int>& gpus, double factor) {
  v1::CalibrateRequest request;
  for (const int count : gpus) {
    Measure(SmallJob(count), factor, request);
  }
  return request;
}

std::string CalibrationErrorOf(const v1::CalibrateRequest& request,
                               const planner::CalibrationSet& kept = {}) {
  return std::string(AnswerCalibrate(request, kept, kFitTime).status().message());
}

// Of steps that are a tenth slower than predicted the errors vanish.
TEST(CalibrationDesk, ComesNearerToWhatWasMeasured) {
  const auto answer = AnswerCalibrate(MeasuredOn({64, 128, 256, 512}, 1.1), {}, kFitTime);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_FALSE(answer->to_keep.has_value());
  const v1::CalibrateResponse& response = answer->response;
  EXPECT_EQ(response.tables_version(), planner::kTimeTablesVersion);
  ASSERT_THAT(response.error_after(), SizeIs(4));
  for (int index = 0; index < 4; ++index) {
    EXPECT_NEAR(response.error_before(index), -1 / 11.0, 1e-6);
    EXPECT_LT(std::abs(response.error_after(index)), 0.05);
  }
  // They are taken back.
  v1::PlanQuestion question = SmallJob(64);
  *question.mutable_constants() = response.constants();
  EXPECT_GT(BestPlan(question).step_seconds().value(),
            BestPlan(SmallJob(64)).step_seconds().value());
}

TEST(CalibrationDesk, WhatIsKeptImprovesTheNextPredictionAndRemembersItsPoints) {
  v1::CalibrateRequest request = MeasuredOn({64, 128}, 1.1);
  request.set_keep(true);
  const auto first = AnswerCalibrate(request, {}, kFitTime);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(first->to_keep.has_value());
  EXPECT_EQ(first->to_keep->key, "H100.MegatronLM");
  EXPECT_EQ(first->to_keep->base_version, 0);
  EXPECT_EQ(first->to_keep->value.kept.version, 1);
  EXPECT_THAT(first->to_keep->value.kept.points, SizeIs(2));
  EXPECT_LT(first->to_keep->value.mean_error_after, first->to_keep->value.mean_error_before);
  EXPECT_THAT(first->response.tables_version(), HasSubstr("+H100.MegatronLM.1"));

  planner::CalibrationSet kept;
  kept.Put(first->to_keep->key, first->to_keep->value.kept);
  request = MeasuredOn({256}, 1.1);
  request.set_keep(true);
  const auto second = AnswerCalibrate(request, kept, kFitTime);
  ASSERT_TRUE(second.ok()) << second.status();
  // The first two have taught it what the third would show.
  EXPECT_LT(std::abs(second->response.error_before(0)), 0.05);
  EXPECT_EQ(second->to_keep->base_version, 1);
  EXPECT_EQ(second->to_keep->value.kept.version, 2);
  EXPECT_THAT(second->to_keep->value.kept.points, SizeIs(3));
}

TEST(CalibrationDesk, NothingIsKeptThatWouldMakeWorseWhatIsPredictedWell) {
  v1::CalibrateRequest good = MeasuredOn({64}, 1.0);
  good.set_keep(true);
  const auto first = AnswerCalibrate(good, {}, kFitTime);
  ASSERT_TRUE(first.ok()) << first.status();
  planner::CalibrationSet kept;
  kept.Put(first->to_keep->key, first->to_keep->value.kept);
  // A disturbed cluster: the same jobs, again and again, at twice the time.
  v1::CalibrateRequest disturbed = MeasuredOn({64, 64, 64, 64}, 2.0);
  EXPECT_TRUE(AnswerCalibrate(disturbed, kept, kFitTime).ok());
  disturbed.set_keep(true);
  const auto refused = AnswerCalibrate(disturbed, kept, kFitTime);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(CalibrationErrorOf(disturbed, kept),
              HasSubstr("a job that was measured earlier would be"));
}

TEST(CalibrationDesk, ErrorsNameTheField) {
  EXPECT_THAT(CalibrationErrorOf({}), HasSubstr("measurements: there are 0: give 1 to 64"));
  v1::CalibrateRequest request = MeasuredOn({64, 64}, 1.1);
  request.mutable_measurements(1)->set_step_seconds(-1);
  EXPECT_THAT(CalibrationErrorOf(request),
              HasSubstr("measurements[1].step_seconds: -1 is no time"));
  request = MeasuredOn({64}, 1.1);
  Measure(SmallJob(64, "H200"), 1, request);
  EXPECT_THAT(CalibrationErrorOf(request), HasSubstr("measurements[1].question: is another GPU"));
  request = MeasuredOn({64}, 1.1);
  request.set_keep(true);
  FillConstants(planner::ShippedConstants(),
                *request.mutable_measurements(0)->mutable_question()->mutable_constants());
  EXPECT_THAT(CalibrationErrorOf(request),
              HasSubstr("measurements[0].question.constants: what is kept"));
  request = MeasuredOn({64}, 1000);
  request.set_keep(true);
  EXPECT_THAT(CalibrationErrorOf(request), HasSubstr("measurements[0].step_seconds: is"));
  EXPECT_THAT(CalibrationErrorOf(request), HasSubstr("check its unit"));
}

}  // namespace
}  // namespace asterism::controller
