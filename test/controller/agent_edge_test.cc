// The stream of agents: who is let in, and what becomes of what they tell. The other end is the
// agent's own link.
#include "controller/agent_edge.h"

#include <filesystem>
#include <fstream>
#include <limits>

#include "agent/controller_link.h"
#include "asterism/v1/agent.grpc.pb.h"
#include "controller/ledger_page.h"
#include "gmock/gmock.h"
#include "grpc_fixture.h"

namespace asterism::controller {
namespace {

using ::testing::HasSubstr;

constexpr char kAgentUser[] = "system:serviceaccount:asterism-agents:asterism-agent";
constexpr char kNodeToken[] = "token-of-node-000";

class AgentEdgeTest : public GrpcFixture {
 protected:
  AgentEdgeTest() {
    reviews_.AddNodeUser(kNodeToken, kAgentUser, "node-000");
    std::filesystem::create_directories(folder_);
  }
  ~AgentEdgeTest() override {
    agent_core_.Stop();
    link_.reset();
    std::filesystem::remove_all(folder_);
  }

  // The agent of a node, as the program runs it.
  void StartAgent(const std::string& node, const std::string& token = kNodeToken) {
    std::ofstream(folder_ + "/token") << token << "\n";
    agent::ControllerLinkOptions options{.address = Address(), .token_path = folder_ + "/token"};
    options.hello.set_node(node);
    options.hello.set_boot_id("boot");
    link_ = std::make_unique<agent::ControllerLink>(agent_core_, base::Rng(1), options);
    agent_core_.Post([this] { link_->Start(); });
  }
  std::string Address() const { return "127.0.0.1:" + std::to_string(server_->port()); }

  // The status with which a stream of these frames ends.
  grpc::Status Ends(const std::vector<v1::AgentFrame>& frames, const std::string& token) {
    const auto stub = v1::Agents::NewStub(Channel());
    grpc::ClientContext context;
    if (!token.empty()) {
      context.AddMetadata("authorization", "Bearer " + token);
    }
    grpc::Status status;
    absl::Notification done;
    std::thread caller([&] {
      const auto stream = stub->Attach(&context);
      v1::ControllerFrame answer;
      for (size_t i = 0; i < frames.size() && stream->Write(frames[i]); ++i) {
        if (i == 0 && !stream->Read(&answer)) {
          break;
        }
      }
      while (stream->Read(&answer)) {
      }
      status = stream->Finish();
      done.Notify();
    });
    EXPECT_TRUE(Eventually([&] { return done.HasBeenNotified(); }));
    context.TryCancel();
    caller.join();
    return status;
  }
  static v1::AgentFrame Hello(const std::string& node) {
    v1::AgentFrame frame;
    frame.mutable_hello()->set_node(node);
    return frame;
  }
  static v1::Device Gpu(const std::string& id, const std::string& pod, bool unhealthy = false) {
    v1::Device device;
    device.set_resource("nvidia.com/gpu");
    device.set_id(id);
    device.set_unhealthy(unhealthy);
    device.set_pod_namespace(pod.empty() ? "" : "research");
    device.set_pod_name(pod);
    return device;
  }
  size_t attached() { return cluster_.leader()->agents().attached(); }
  void Tell(v1::DeviceReport report) {
    agent_core_.Post([this, report = std::move(report)] { link_->Tell(report); });
  }
  void Tell(v1::PodReport report) {
    agent_core_.Post([this, report = std::move(report)] { link_->Tell(report); });
  }
  std::vector<std::string> NodeEvents() {
    std::vector<std::string> notes;
    for (const auto& event : cluster_.server().All(kube::kEvents)) {
      if (event->at("regarding").at("kind") == "Node") {
        notes.push_back(event->value("reason", "") + ": " + event->value("note", ""));
      }
    }
    return notes;
  }

  const std::string folder_ = ::testing::TempDir() + "agent-edge-" + std::to_string(getpid());
  base::ThreadExecutor agent_core_{"agent"};
  std::unique_ptr<agent::ControllerLink> link_;
};

TEST_F(AgentEdgeTest, AnAgentOfItsNodeIsAttached) {
  Serve();
  StartAgent("node-000");
  EXPECT_TRUE(Eventually([&] { return attached() == 1; }));
  agent_core_.Stop();
  link_.reset();
  EXPECT_TRUE(Eventually([&] { return attached() == 0; }));
}

TEST_F(AgentEdgeTest, WhatAnAgentMeasuresIsTakenAndWhatIsLostIsAskedForOnce) {
  Serve();
  const auto stub = v1::Agents::NewStub(Channel());
  grpc::ClientContext context;
  context.AddMetadata("authorization", std::string("Bearer ") + kNodeToken);
  std::vector<std::string> answers;
  absl::Notification told;
  absl::Notification over;
  std::thread caller([&] {
    const auto stream = stub->Attach(&context);
    v1::ControllerFrame answer;
    v1::AgentFrame delta;
    delta.mutable_measurement()->set_generation(5);
    v1::AgentFrame full;
    full.mutable_measurement()->set_generation(6);
    full.mutable_measurement()->set_full(true);
    for (int gpu = 0; gpu < 4; ++gpu) {
      full.mutable_measurement()->mutable_gpus()->add_gpus()->set_product("H100");
    }
    for (const v1::AgentFrame& frame : {Hello("node-000"), delta}) {
      if (stream->Write(frame) && stream->Read(&answer)) {
        answers.push_back(answer.has_welcome()              ? "welcome"
                          : answer.has_measurement_wanted() ? "wanted"
                                                            : "?");
      }
    }
    stream->Write(full);
    told.Notify();
    while (stream->Read(&answer)) {
      answers.emplace_back("more");
    }
    stream->Finish();
    over.Notify();
  });
  EXPECT_TRUE(Eventually([&] { return told.HasBeenNotified(); }));
  EXPECT_TRUE(Eventually([&] {
    const auto state = cluster_.leader()->topology_state();
    const topology::NodeId node = state->snapshot->cluster->FindNode("node-000");
    return node.valid() && (*state->snapshot->conditions)[node.index()].gpu_count == 4;
  }));
  context.TryCancel();
  EXPECT_TRUE(Eventually([&] { return over.HasBeenNotified(); }));
  caller.join();
  EXPECT_THAT(answers, ::testing::ElementsAre("welcome", "wanted"));
}

TEST_F(AgentEdgeTest, NobodyElseIs) {
  Serve();
  reviews_.AddNodeUser("unbound", kAgentUser, "");
  struct Case {
    std::string node, token;
    grpc::StatusCode code;
    std::string says;
  };
  for (const Case& wrong : std::vector<Case>{
           {"node-000", "", grpc::StatusCode::UNAUTHENTICATED, "no identity"},
           {"node-000", "nonsense", grpc::StatusCode::UNAUTHENTICATED, ""},
           {"node-000", kRoot, grpc::StatusCode::PERMISSION_DENIED,
            "not the agents' ServiceAccount"},
           {"node-001", kNodeToken, grpc::StatusCode::PERMISSION_DENIED,
            "its pod runs on node-000"},
           {"node-000", "unbound", grpc::StatusCode::PERMISSION_DENIED, "bound to no node"},
           {"", kNodeToken, grpc::StatusCode::INVALID_ARGUMENT, "node is missing"},
           {std::string(300, 'x'), kNodeToken, grpc::StatusCode::INVALID_ARGUMENT, "too long"}}) {
    const grpc::Status status = Ends({Hello(wrong.node)}, wrong.token);
    EXPECT_EQ(status.error_code(), wrong.code) << wrong.node << " " << wrong.token;
    EXPECT_THAT(status.error_message(), HasSubstr(wrong.says));
  }
  EXPECT_EQ(attached(), 0U);
}

TEST_F(AgentEdgeTest, FramesThatMakeNoSenseEndTheStream) {
  Serve();
  v1::AgentFrame beat;
  beat.mutable_beat();
  EXPECT_THAT(Ends({beat}, kNodeToken).error_message(), HasSubstr("hello"));
  EXPECT_THAT(Ends({Hello("node-000"), Hello("node-000")}, kNodeToken).error_message(),
              HasSubstr("second hello"));
  v1::AgentFrame nameless;
  nameless.mutable_pod();
  EXPECT_THAT(Ends({Hello("node-000"), nameless}, kNodeToken).error_message(),
              HasSubstr("pod_uid"));
  v1::AgentFrame many;
  for (int i = 0; i < 4097; ++i) {
    *many.mutable_devices()->add_devices() = Gpu("g" + std::to_string(i), "");
  }
  EXPECT_THAT(Ends({Hello("node-000"), many}, kNodeToken).error_message(), HasSubstr("4096"));
}

TEST_F(AgentEdgeTest, TheSecondAgentOfANodeTakesItsPlace) {
  Serve();
  StartAgent("node-000");
  ASSERT_TRUE(Eventually([&] { return attached() == 1; }));
  const grpc::Status second = Ends({Hello("node-000")}, kNodeToken);
  // Either may win in the end, as the first connects again: never two.
  EXPECT_EQ(second.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_TRUE(Eventually([&] { return attached() == 1; }));
}

TEST_F(AgentEdgeTest, WhoIsAttachedWaitsForNobody) {
  Serve();
  StartAgent("node-000");
  ASSERT_TRUE(Eventually([&] { return attached() == 1; }));
  // As many as may wait say no hello.
  const auto stub = v1::Agents::NewStub(Channel());
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReaderWriter<v1::AgentFrame, v1::ControllerFrame>>>
      silent;
  for (int i = 0; i < 4; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    silent.push_back(stub->Attach(contexts.back().get()));
  }
  PumpFor(absl::Milliseconds(300));
  EXPECT_EQ(Ends({Hello("node-001")}, kNodeToken).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(attached(), 1U);
  for (const auto& context : contexts) {
    context->TryCancel();
  }
  for (const auto& stream : silent) {
    stream->Finish().error_code();
  }
  EXPECT_TRUE(Eventually([&] {
    return Ends({Hello("node-001")}, kNodeToken).error_code() ==
           grpc::StatusCode::PERMISSION_DENIED;
  }));
}

// New tokens of others are all used up, again and again.
TEST_F(AgentEdgeTest, GuessesOfOthersKeepNoAgentAway) {
  Serve();
  int guesses = 0;
  const auto guess = [&] {
    v1::PlaceRequest request;
    v1::PlaceResponse response;
    return Call([&](auto* async, auto* context,
                    auto done) { async->Place(context, &request, &response, std::move(done)); },
                {.token = "guess" + std::to_string(++guesses)})
        .error_code();
  };
  while (guess() != grpc::StatusCode::RESOURCE_EXHAUSTED) {
    ASSERT_LT(guesses, 3000);
  }
  // One that would have to share with them is refused at once.
  EXPECT_EQ(Ends({Hello("node-001")}, kNodeToken).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(AgentEdgeTest, DevicesOfAPodStandInTheLedger) {
  cluster_.AddQueue("research");
  Serve();
  cluster_.CreateJob("llama", 8);
  ASSERT_TRUE(Eventually([&] { return cluster_.StateOf("llama") == "Running"; }));
  const auto pods = cluster_.PodsOf("llama");
  const std::string pod = pods.begin()->first;
  const std::string node = pods.begin()->second["spec"]["nodeName"];
  reviews_.AddNodeUser("token", kAgentUser, node);
  StartAgent(node, "token");
  v1::DeviceReport report;
  *report.add_devices() = Gpu("GPU-1", pod);
  *report.add_devices() = Gpu("GPU-0", pod);
  *report.add_devices() = Gpu("GPU-2", "");
  Tell(report);
  ControlPlane& plane = *cluster_.leader();
  ASSERT_TRUE(Eventually([&] { return plane.device_holders().size() == 1; }));
  const nlohmann::json page =
      nlohmann::json::parse(LedgerPage(*plane.view(), plane.device_holders(), true));
  EXPECT_EQ(page["gangs"][0]["blocks"][0]["devices"], nlohmann::json::array({"GPU-0", "GPU-1"}));
  // What kubelet cannot tell stays as it was known.
  v1::DeviceReport unknown;
  unknown.set_problem("kubelet is away");
  Tell(unknown);
  PumpFor(absl::Milliseconds(200));
  EXPECT_EQ(plane.device_holders().size(), 1U);
}

TEST_F(AgentEdgeTest, AnUnhealthyDeviceBecomesAnEventOfItsNode) {
  Serve();
  StartAgent("node-000");
  v1::DeviceReport report;
  *report.add_devices() = Gpu("GPU-7", "");
  Tell(report);
  *report.mutable_devices(0) = Gpu("GPU-7", "", /*unhealthy=*/true);
  Tell(report);
  ASSERT_TRUE(Eventually([&] { return NodeEvents().size() == 1; }));
  EXPECT_THAT(NodeEvents()[0], HasSubstr("DeviceUnhealthy: device GPU-7 of node node-000"));
  *report.mutable_devices(0) = Gpu("GPU-7", "");
  Tell(report);
  ASSERT_TRUE(Eventually([&] { return NodeEvents().size() == 2; }));
}

TEST_F(AgentEdgeTest, WhatALauncherToldIsTheFirstCause) {
  cluster_.AddQueue("research");
  Serve();
  cluster_.CreateJob("llama", 8, {{"failurePolicy", {{"maxRestarts", 0}}}});
  ASSERT_TRUE(Eventually([&] { return cluster_.StateOf("llama") == "Running"; }));
  const nlohmann::json pod = cluster_.PodsOf("llama").begin()->second;
  const std::string node = pod["spec"]["nodeName"];
  reviews_.AddNodeUser("token", kAgentUser, node);
  StartAgent(node, "token");
  v1::PodReport report;
  report.set_pod_uid(pod["metadata"]["uid"]);
  report.set_connected(true);
  report.mutable_state()->mutable_progress()->set_step(120);
  // No number of JSON: a status with it would be refused, and nothing of the job told any more.
  report.mutable_state()->mutable_progress()->set_tokens_per_second(
      std::numeric_limits<double>::infinity());
  report.mutable_state()->mutable_progress()->set_step_time_milliseconds(
      std::numeric_limits<double>::quiet_NaN());
  Tell(report);
  ASSERT_TRUE(Eventually([&] { return cluster_.StatusOf("llama").contains("progress"); }));
  EXPECT_EQ(cluster_.StatusOf("llama")["progress"]["step"], 120);
  EXPECT_EQ(cluster_.StatusOf("llama")["step"], "120");
  const int64_t now = absl::ToUnixNanos(cluster_.clock().Now());
  report.mutable_state()->mutable_first_cause()->set_time_unix_nanos(now);
  report.mutable_state()->mutable_exit()->set_time_unix_nanos(now);
  report.mutable_state()->mutable_first_cause()->set_rank(5);
  report.mutable_state()->mutable_first_cause()->set_exit_code(13);
  report.mutable_state()->mutable_exit()->set_exit_code(1);
  report.mutable_state()->mutable_exit()->set_rank(-1);
  Tell(report);
  // kubelet says nothing, and yet:
  ASSERT_TRUE(Eventually([&] { return cluster_.StateOf("llama") == "Failed"; }));
  const nlohmann::json last = cluster_.StatusOf("llama")["restarts"]["last"];
  EXPECT_EQ(last["rank"], 5);
  EXPECT_EQ(last["exitCode"], 13);
  EXPECT_EQ(last["reason"], "AppError");
}

TEST_F(AgentEdgeTest, AnAgentSpeaksForThePodsOfItsNodeOnly) {
  cluster_.AddQueue("research");
  Serve();
  cluster_.CreateJob("llama", 8, {{"failurePolicy", {{"maxRestarts", 0}}}});
  ASSERT_TRUE(Eventually([&] { return cluster_.StateOf("llama") == "Running"; }));
  const nlohmann::json pod = cluster_.PodsOf("llama").begin()->second;
  const std::string other = pod["spec"]["nodeName"] == "node-000" ? "node-001" : "node-000";
  reviews_.AddNodeUser("token", kAgentUser, other);
  StartAgent(other, "token");
  v1::PodReport report;
  report.set_pod_uid(pod["metadata"]["uid"]);
  report.mutable_state()->mutable_exit()->set_exit_code(1);
  Tell(report);
  ASSERT_TRUE(Eventually([&] { return attached() == 1; }));
  PumpFor(absl::Milliseconds(500));
  EXPECT_EQ(cluster_.StateOf("llama"), "Running");
}

TEST_F(AgentEdgeTest, AStreamWithoutAHelloEnds) {
  Serve();
  const auto stub = v1::Agents::NewStub(Channel());
  grpc::ClientContext context;
  grpc::Status status;
  absl::Notification done;
  std::thread caller([&] {
    const auto stream = stub->Attach(&context);
    v1::ControllerFrame answer;
    while (stream->Read(&answer)) {
    }
    status = stream->Finish();
    done.Notify();
  });
  PumpFor(absl::Milliseconds(300));  // the call has come
  cluster_.Run(absl::Seconds(3));
  EXPECT_TRUE(Eventually([&] { return done.HasBeenNotified(); }));
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

}  // namespace
}  // namespace asterism::controller
