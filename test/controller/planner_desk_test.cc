// What each method of asterism.v1.Planner answers.

#include "controller/planner_desk.h"

#include "asterism/v1/planner.pb.h"
#include "controller/planner_messages.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/calibration_set.h"
#include "test/controller/planner_questions.h"

namespace asterism::controller {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;

v1::PlanResponse Planned(const v1::PlanQuestion& question, int plans = 1) {
  v1::PlanRequest request;
  *request.mutable_question() = question;
  request.set_plans(plans);
  auto response = AnswerPlanRequest(request, {});
  EXPECT_TRUE(response.ok()) << response.status();
  return *std::move(response);
}

TEST(PlannerDesk, PlansComeWithAllTerms) {
  const v1::PlanResponse response = Planned(PlanQuestionFor(512), 3);
  ASSERT_THAT(response.plans(), SizeIs(3));
  EXPECT_TRUE(response.certificate().proven());
  double before = 0;
  for (const v1::ParallelPlan& plan : response.plans()) {
    const v1::ParallelDegrees& d = plan.degrees();
    EXPECT_EQ(d.tensor() * d.pipeline() * d.context() * d.data(), plan.gpus_used());
    double step = 0;
    for (const v1::Term& term : plan.step_terms()) {
      step += term.value();
    }
    EXPECT_NEAR(step, plan.step_seconds().value(), 1e-9 * step);
    EXPECT_GE(plan.step_seconds().value(), before);
    before = plan.step_seconds().value();
    EXPECT_TRUE(plan.fits());
    EXPECT_THAT(plan.arguments(), Contains("--tensor-model-parallel-size"));
  }
}

TEST(PlannerDesk, WhatCannotFitIsAnAnswer) {
  const v1::PlanResponse response = Planned(PlanQuestionFor(64, {.model = "llama-3-405b"}));
  EXPECT_THAT(response.plans(), SizeIs(0));
  EXPECT_EQ(response.minimum_gpus(), 128);
  EXPECT_THAT(response.reason(), HasSubstr("use 128 GPUs or more"));
}

TEST(PlannerDesk, APlanExplainsItselfFromItsOwnWords) {
  for (const std::string framework : {"MegatronLM", "DeepSpeed", "FSDP"}) {
    const v1::PlanQuestion question =
        PlanQuestionFor(64, {.model = "llama-3-8b", .framework = framework});
    const v1::ParallelPlan plan = Planned(question).plans(0);
    v1::ExplainPlanRequest request;
    *request.mutable_question() = question;
    *request.mutable_launch()->mutable_arguments() = plan.arguments();
    request.mutable_launch()->set_file(plan.file().content());
    const auto explained = AnswerExplainPlan(request, {});
    ASSERT_TRUE(explained.ok()) << framework << explained.status();
    EXPECT_EQ(explained->plan().degrees().SerializeAsString(), plan.degrees().SerializeAsString());
    EXPECT_EQ(explained->plan().step_seconds().value(), plan.step_seconds().value()) << framework;
    EXPECT_EQ(explained->plan().device_bytes().high(), plan.device_bytes().high());
  }
}

TEST(PlannerDesk, ValidateNamesRuleAndRemedy) {
  v1::ValidateRequest request;
  *request.mutable_question() = PlanQuestionFor(64);
  for (const char* word :
       {"--tensor-model-parallel-size", "8", "--overlap-param-gather", "--micro-batch-size", "3"}) {
    request.mutable_launch()->add_arguments(word);
  }
  const auto response = AnswerValidate(request, {});
  ASSERT_TRUE(response.ok()) << response.status();
  std::vector<std::string> rules;
  for (const v1::Violation& each : response->violations()) {
    rules.push_back(each.rule());
    EXPECT_FALSE(each.reason().empty());
  }
  EXPECT_THAT(rules, ::testing::IsSupersetOf({"batch.product", "overlap.param_gather",
                                              "tp.connections", "memory.fits"}));
  EXPECT_FALSE(response->fits());
}

TEST(PlannerDesk, EveryPlanValidates) {
  const v1::PlanQuestion question = PlanQuestionFor(512);
  const v1::ParallelPlan plan = Planned(question).plans(0);
  v1::ValidateRequest request;
  *request.mutable_question() = question;
  *request.mutable_launch()->mutable_arguments() = plan.arguments();
  for (const v1::Choice& each : plan.environment()) {
    (*request.mutable_launch()->mutable_environment())[each.name()] = each.value();
  }
  const auto response = AnswerValidate(request, {});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(response->violations(), SizeIs(0));
  EXPECT_TRUE(response->fits());
}

TEST(PlannerDesk, ReplanUsesWhatIsLeft) {
  const v1::PlanQuestion question =
      PlanQuestionFor(512, {.rest = R"("plan": {"maxSpareGpus": 255},)"});
  v1::ReplanRequest request;
  *request.mutable_question() = question;
  *request.mutable_launch()->mutable_arguments() =
      Planned(PlanQuestionFor(512)).plans(0).arguments();
  request.set_lost_gpus(8);
  const auto response = AnswerReplan(request, {});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_LE(response->plan().gpus_used(), 504);
  EXPECT_TRUE(response->plan().fits());
  request.set_lost_gpus(512);
  EXPECT_THAT(std::string(AnswerReplan(request, {}).status().message()), HasSubstr("lost_gpus"));
}

TEST(PlannerDesk, WhatTheClusterKeepsHoldsUnlessTheQuestionSaysOther) {
  v1::PlanRequest request;
  *request.mutable_question() = PlanQuestionFor(64, {.model = "llama-3-8b"});
  planner::TimeConstants slow = planner::ShippedConstantsOf("H100");
  slow.product_efficiency /= 2;
  planner::CalibrationSet kept;
  kept.Put("H100.MegatronLM", {.version = 7, .constants = slow, .points = {}});
  const auto shipped = AnswerPlanRequest(request, {});
  const auto own = AnswerPlanRequest(request, kept);
  ASSERT_TRUE(shipped.ok() && own.ok());
  EXPECT_EQ(shipped->tables_version(), planner::kTimeTablesVersion);
  EXPECT_EQ(own->tables_version(), shipped->tables_version() + "+H100.MegatronLM.7");
  EXPECT_GT(own->plans(0).step_seconds().value(), 1.2 * shipped->plans(0).step_seconds().value());
  FillConstants(planner::ShippedConstantsOf("H100"),
                *request.mutable_question()->mutable_constants());
  const auto stated = AnswerPlanRequest(request, kept);
  ASSERT_TRUE(stated.ok());
  EXPECT_EQ(stated->tables_version(), planner::kTimeTablesVersion);
  EXPECT_EQ(stated->plans(0).step_seconds().value(), shipped->plans(0).step_seconds().value());
}

TEST(PlannerDesk, ErrorsNameTheField) {
  const auto message = [](const v1::PlanQuestion& question) {
    v1::PlanRequest request;
    *request.mutable_question() = question;
    return std::string(AnswerPlanRequest(request, {}).status().message());
  };
  v1::PlanQuestion question = PlanQuestionFor(64);
  question.mutable_cluster()->set_gpu("H1000");
  EXPECT_THAT(message(question), HasSubstr("cluster.gpu: \"H1000\" is not known: use one of"));
  question = PlanQuestionFor(64);
  question.mutable_cluster()->mutable_levels(1)->set_gigabytes_per_second(-1);
  EXPECT_THAT(message(question), HasSubstr("cluster.levels.cluster: bandwidth -1"));
  question = PlanQuestionFor(64);
  question.set_training_job_json("{");
  EXPECT_THAT(message(question), HasSubstr("TrainingJob"));
  EXPECT_THAT(message(PlanQuestionFor(64, {.framework = "Plain"})),
              HasSubstr("spec.framework: Plain has no arguments"));
  question = PlanQuestionFor(64);
  question.mutable_constants()->set_half_width(-3);
  EXPECT_THAT(message(question), HasSubstr("constants: "));
  v1::PlanRequest request;
  request.set_plans(99);
  EXPECT_THAT(std::string(AnswerPlanRequest(request, {}).status().message()),
              HasSubstr("plans: 99 is out of range: use 0 to 20"));
}

}  // namespace
}  // namespace asterism::controller
