// Agents that speak through relays, over real mTLS: the controller, relays and members are the real
// ones, in one process.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "agent/controller_link.h"
#include "gmock/gmock.h"
#include "grpc_fixture.h"
#include "test/server/test_certificates.h"

namespace asterism::controller {
namespace {

constexpr char kUserOfAgents[] = "system:serviceaccount:asterism-agents:asterism-agent";

std::string FileText(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class FixedSource final : public server::CertificateSource {
 public:
  explicit FixedSource(server::TlsMaterial material)
      : material_(std::make_shared<const server::TlsMaterial>(std::move(material))) {}
  std::shared_ptr<const server::TlsMaterial> Current() override { return material_; }

 private:
  const std::shared_ptr<const server::TlsMaterial> material_;
};

class AgentsByRelayTest : public GrpcFixture {
 protected:
  AgentsByRelayTest() {
    std::filesystem::create_directories(folder_);
    relays_ = {.mode = RelayMode::kOn, .level = "supernode"};
    const server::testing::PemFiles files = authority_.Issue("localhost");
    source_ = std::make_unique<FixedSource>(
        server::TlsMaterial{.certificate = FileText(files.certificate_file),
                            .key = FileText(files.key_file),
                            .client_authorities = FileText(authority_.ca_file())});
    Serve({}, {.certificates = source_.get()});
  }
  ~AgentsByRelayTest() override {
    agents_by_node_.clear();
    StopServing();
    std::filesystem::remove_all(folder_);
  }

  struct Agent {
    ~Agent() {
      core.Stop();
      link.reset();
    }
    base::ThreadExecutor core{"agent"};
    std::unique_ptr<agent::ControllerLink> link;
  };

  void StartAgent(int number, bool may_relay = true) {
    const std::string node = fmt::format("node-{:03}", number);
    const std::string token = "token-of-" + node;
    reviews_.AddNodeUser(token, kUserOfAgents, node);
    std::ofstream(folder_ + "/" + token) << token;
    agent::ControllerLinkOptions options{.address = "127.0.0.1:" + std::to_string(server_->port()),
                                         .server_name = "localhost",
                                         .authority_path = authority_.ca_file(),
                                         .certificate_path = agent_files_.certificate_file,
                                         .key_path = agent_files_.key_file,
                                         .token_path = folder_ + "/" + token,
                                         .relay_host = may_relay ? "127.0.0.1" : ""};
    options.hello.set_node(node);
    options.hello.set_boot_id("boot");
    auto agent = std::make_unique<Agent>();
    agent->link = std::make_unique<agent::ControllerLink>(
        agent->core, base::Rng(static_cast<uint64_t>(number)), options);
    agent->core.Post([link = agent->link.get()] { link->Start(); });
    agents_by_node_[number] = std::move(agent);
  }
  // As if its process had ended: its streams break.
  void EndAgent(int number) { agents_by_node_.erase(number); }

  double Metric(const std::string& name) {
    std::istringstream page(cluster_.registry("a").Expose());
    for (std::string line; std::getline(page, line);) {
      if (line.starts_with(name + " ")) {
        return std::stod(line.substr(name.size() + 1));
      }
    }
    return -1;
  }
  bool AttachedAre(double streams, double relays, double members) {
    return Metric("asterism_agent_streams") == streams &&
           Metric("asterism_agent_relays") == relays &&
           Metric("asterism_agent_relay_members") == members;
  }
  void TellDevice(int number, const std::string& pod) {
    v1::DeviceReport report;
    v1::Device& device = *report.add_devices();
    device.set_resource("nvidia.com/gpu");
    device.set_id("GPU-0");
    device.set_pod_namespace("research");
    device.set_pod_name(pod);
    Agent& agent = *agents_by_node_.at(number);
    agent.core.Post([link = agent.link.get(), report] { link->Tell(report); });
  }
  void TellMeasurement(int number, int gpus) {
    v1::NodeMeasurement measured;
    for (int gpu = 0; gpu < gpus; ++gpu) {
      measured.mutable_gpus()->add_gpus()->set_product("H100");
    }
    Agent& agent = *agents_by_node_.at(number);
    agent.core.Post([link = agent.link.get(), measured] { link->Tell(measured); });
  }
  uint32_t GpusOf(int number) {
    const auto snapshot = cluster_.leader()->topology_state()->snapshot;
    const topology::NodeId node = snapshot->cluster->FindNode(fmt::format("node-{:03}", number));
    return (*snapshot->conditions)[node.index()].gpu_count;
  }
  bool Holds(const std::string& pod) {
    return cluster_.leader()->device_holders().contains("research/" + pod);
  }

  const std::string folder_ = ::testing::TempDir() + "agents-by-relay-" + std::to_string(getpid());
  server::testing::TestAuthority authority_{"ca"};
  const server::testing::PemFiles agent_files_ =
      authority_.Issue(agent::kAgentName, server::CertificateUse::kServerAndClient);
  std::unique_ptr<FixedSource> source_;
  std::map<int, std::unique_ptr<Agent>> agents_by_node_;
};

TEST_F(AgentsByRelayTest, MembersOfADomainSpeakThroughOneOfThem) {
  for (int node = 0; node < 5; ++node) {  // four of one supernode, and one of the next
    StartAgent(node);
  }
  ASSERT_TRUE(Eventually([&] { return AttachedAre(2, 1, 3); }));
  EXPECT_EQ(cluster_.leader()->agents().attached(), 5U);
  for (int node = 0; node < 5; ++node) {
    TellDevice(node, fmt::format("pod-{}", node));
    TellMeasurement(node, node + 1);
  }
  for (int node = 0; node < 5; ++node) {
    EXPECT_TRUE(Eventually([&] { return Holds(fmt::format("pod-{}", node)); })) << node;
    EXPECT_TRUE(Eventually([&] { return GpusOf(node) == static_cast<uint32_t>(node) + 1; }))
        << node;
  }
}

TEST_F(AgentsByRelayTest, ARelayThatEndsIsReplacedAndNothingThatWasToldIsLost) {
  StartAgent(0);
  ASSERT_TRUE(Eventually([&] { return Metric("asterism_agent_streams") == 1; }));
  StartAgent(1, /*may_relay=*/false);
  ASSERT_TRUE(Eventually([&] { return AttachedAre(1, 1, 1); }));
  StartAgent(2);
  StartAgent(3, /*may_relay=*/false);
  for (int node = 1; node < 4; ++node) {
    TellMeasurement(node, 8);
  }
  ASSERT_TRUE(Eventually([&] { return AttachedAre(1, 1, 3) && GpusOf(3) == 8; }));
  EndAgent(0);
  // While there is no relay they say this; and what was known of them stays known.
  for (int node = 1; node < 4; ++node) {
    TellDevice(node, fmt::format("pod-{}", node));
    EXPECT_EQ(GpusOf(node), 8U);
  }
  ASSERT_TRUE(Eventually([&] { return AttachedAre(1, 1, 2); }));
  for (int node = 1; node < 4; ++node) {
    EXPECT_TRUE(Eventually([&] { return Holds(fmt::format("pod-{}", node)); })) << node;
    EXPECT_EQ(GpusOf(node), 8U);
  }
  EXPECT_EQ(cluster_.leader()->agents().attached(), 3U);
}

TEST_F(AgentsByRelayTest, AMemberThatEndsIsGoneAtTheController) {
  StartAgent(0);
  StartAgent(1, /*may_relay=*/false);
  ASSERT_TRUE(Eventually([&] { return AttachedAre(1, 1, 1); }));
  EndAgent(1);
  EXPECT_TRUE(Eventually([&] { return AttachedAre(1, 1, 0); }));
  EXPECT_EQ(cluster_.leader()->agents().attached(), 1U);
}

}  // namespace
}  // namespace asterism::controller
