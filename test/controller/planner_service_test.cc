// asterism.v1.Planner over a real connection: who is answered.

#include "asterism/v1/planner.grpc.pb.h"
#include "controller/calibration_keeper.h"
#include "gmock/gmock.h"
#include "grpc_fixture.h"
#include "nlohmann/json.hpp"
#include "planner/time_constants.h"

namespace asterism::controller {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class PlannerServiceTest : public GrpcFixture {
 protected:
  PlannerServiceTest() { Serve(); }

  static v1::PlanQuestion Question() {
    v1::PlanQuestion question;
    question.set_training_job_json(
        R"({"kind": "TrainingJob", "spec": {"gpus": 64, "framework": "MegatronLM", "model":
            {"preset": "llama-3-8b", "globalBatchSize": 256, "sequenceLength": 8192}}})");
    question.mutable_cluster()->set_gpu("H100");
    v1::PlanLevel& node = *question.mutable_cluster()->add_levels();
    node.set_name("node");
    node.set_gpus(8);
    v1::PlanLevel& all = *question.mutable_cluster()->add_levels();
    all.set_name("cluster");
    all.set_gpus(1024);
    all.set_gigabytes_per_second(50);
    return question;
  }

  // `begin` begins the call on the stub.
  template <typename Begin>
  grpc::Status CallPlanner(const std::string& token, Begin begin) {
    const std::unique_ptr<v1::Planner::Stub> planner = v1::Planner::NewStub(Channel());
    grpc::ClientContext context;
    if (!token.empty()) {
      context.AddMetadata("authorization", "Bearer " + token);
    }
    absl::Notification done;
    grpc::Status result;
    begin(*planner->async(), &context, [&](const grpc::Status& status) {
      result = status;
      done.Notify();
    });
    EXPECT_TRUE(Eventually([&] { return done.HasBeenNotified(); }));
    done.WaitForNotification();
    return result;
  }

  grpc::Status Ask(const std::string& token, v1::PlanResponse& response) {
    v1::PlanRequest request;
    *request.mutable_question() = Question();
    return CallPlanner(token, [&](auto& async, auto* context, auto done) {
      async.Plan(context, &request, &response, std::move(done));
    });
  }

  // A step that took `factor` times what is predicted.
  grpc::Status Calibrate(const std::string& token, double factor, v1::CalibrateResponse& response) {
    v1::PlanResponse planned;
    EXPECT_TRUE(Ask(token, planned).ok());
    v1::CalibrateRequest request;
    request.set_keep(true);
    v1::Measurement& measurement = *request.add_measurements();
    *measurement.mutable_question() = Question();
    *measurement.mutable_launch()->mutable_arguments() = planned.plans(0).arguments();
    measurement.set_step_seconds(factor * planned.plans(0).step_seconds().value());
    return CallPlanner(token, [&](auto& async, auto* context, auto done) {
      async.Calibrate(context, &request, &response, std::move(done));
    });
  }
};

TEST_F(PlannerServiceTest, AnswersWhomTheApiServerKnows) {
  v1::PlanResponse response;
  // Bob has no right at all: nothing of the cluster is read.
  const grpc::Status status = Ask(kBob, response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_THAT(response.plans(), SizeIs(1));
  EXPECT_TRUE(response.plans(0).fits());
}

TEST_F(PlannerServiceTest, AStrangerIsNotAnswered) {
  v1::PlanResponse response;
  EXPECT_EQ(Ask("token-of-nobody", response).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Ask("", response).error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(PlannerServiceTest, WhoMayUpdateTheConfigMapMayHaveACalibrationKept) {
  v1::CalibrateResponse calibrated;
  const grpc::Status refused = Calibrate(kBob, 1.1, calibrated);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(),
              HasSubstr("\"bob\" may not update configmaps in namespace \"asterism-system\""));
  EXPECT_EQ(reviews_.last_access()["resourceAttributes"]["name"], kCalibrationMap);
  v1::PlanResponse before;
  ASSERT_TRUE(Ask(kBob, before).ok());
  EXPECT_EQ(before.tables_version(), planner::kTimeTablesVersion);

  reviews_.Allow("root", "update configmaps asterism-system");
  const grpc::Status kept = Calibrate(kRoot, 1.1, calibrated);
  ASSERT_TRUE(kept.ok()) << kept.error_message();
  // The very next plan is made with it, whoever asks.
  v1::PlanResponse after;
  ASSERT_TRUE(Ask(kBob, after).ok());
  EXPECT_EQ(after.tables_version(), calibrated.tables_version());
  EXPECT_EQ(after.tables_version(), before.tables_version() + "+H100.MegatronLM.1");
  EXPECT_GT(after.plans(0).step_seconds().value(), before.plans(0).step_seconds().value());
}

TEST_F(PlannerServiceTest, ARestartedControllerPlansWithWhatWasKept) {
  reviews_.Allow("root", "update configmaps asterism-system");
  v1::CalibrateResponse calibrated;
  ASSERT_TRUE(Calibrate(kRoot, 1.1, calibrated).ok());
  v1::PlanResponse before;
  ASSERT_TRUE(Ask(kBob, before).ok());
  StopServing();
  cluster_.KillController("a");
  cluster_.StartController("a");
  ASSERT_TRUE(cluster_.RunUntil([&] { return cluster_.leader() != nullptr; }));
  Serve();
  v1::PlanResponse after;
  ASSERT_TRUE(Ask(kBob, after).ok());
  EXPECT_EQ(after.tables_version(), calibrated.tables_version());
  EXPECT_EQ(after.plans(0).step_seconds().value(), before.plans(0).step_seconds().value());
}

}  // namespace
}  // namespace asterism::controller
