// asterism.v1.Planner over a real connection: who is answered.

#include "asterism/v1/planner.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpc_fixture.h"

namespace asterism::controller {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class PlannerServiceTest : public GrpcFixture {
 protected:
  PlannerServiceTest() { Serve(); }

  grpc::Status Ask(const std::string& token, v1::PlanResponse& response) {
    const std::unique_ptr<v1::Planner::Stub> planner = v1::Planner::NewStub(Channel());
    v1::PlanRequest request;
    v1::PlanQuestion& question = *request.mutable_question();
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
    grpc::ClientContext context;
    if (!token.empty()) {
      context.AddMetadata("authorization", "Bearer " + token);
    }
    absl::Notification done;
    grpc::Status result;
    planner->async()->Plan(&context, &request, &response, [&](const grpc::Status& status) {
      result = status;
      done.Notify();
    });
    EXPECT_TRUE(Eventually([&] { return done.HasBeenNotified(); }));
    done.WaitForNotification();
    return result;
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

}  // namespace
}  // namespace asterism::controller
