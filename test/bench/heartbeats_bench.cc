// Both ends of the streams of agents, for test/bench/heartbeats: a controller with many nodes, and
// many agents.
//
//   heartbeats_bench serve FOLDER NODES Auto|On|Off
//   heartbeats_bench drive FOLDER PORT FIRST COUNT PER_SECOND
//
// serve: the whole control plane of asterism-controller with its real gRPC port and mTLS, leading;
// the API server is the fake of the tests, in the same process. Makes the certificates in FOLDER,
// prints {"port": ...}, and for each line of stdin a line of figures. drive: the agent's own link
// to the controller, once for each node from FIRST on, each with a connection of its own; those
// that the controller appoints are relays. Both end with stdin.
#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "agent/controller_link.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/open_files.h"
#include "controller/agent_edge.h"
#include "controller/control_plane.h"
#include "controller/grpc_server.h"
#include "controller/grpc_services.h"
#include "controller/placement_edge.h"
#include "fmt/format.h"
#include "kube/testing/fake_api_server.h"
#include "nlohmann/json.hpp"
#include "operator/queue.h"
#include "server/certificate_authority.h"
#include "test/controller/fake_reviews.h"

namespace asterism::controller {
namespace {

using nlohmann::json;

constexpr char kAgents[] = "system:serviceaccount:asterism-agents:asterism-agent";
constexpr int kNodesOfASupernode = 4;
constexpr int kGpus = 8;
constexpr int kNics = 10;
constexpr int kNvlinks = 18;

std::string NodeName(int number) {
  return fmt::format("gpu-{:05}", number);
}
std::string TokenOf(const std::string& node) {
  return "token-of-" + node;
}

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

json NodeObject(int number) {
  const json resources = {
      {"cpu", "192"}, {"memory", "2Ti"}, {"pods", "110"}, {"nvidia.com/gpu", "8"}};
  return {
      {"metadata",
       {{"name", NodeName(number)},
        {"labels",
         {{"asterism.dev/declared-supernode", fmt::format("sn-{:04}", number / kNodesOfASupernode)},
          {"nvidia.com/gpu.product", "H100"},
          {"kubernetes.io/hostname", NodeName(number)}}}}},
      {"spec", json::object()},
      {"status",
       {{"capacity", resources},
        {"allocatable", resources},
        {"conditions", json::array({{{"type", "Ready"}, {"status", "True"}}})}}}};
}

// Of an eight-GPU node with ten ports: about 6 KB.
v1::NodeMeasurement MeasurementOf(int number) {
  v1::NodeMeasurement measured;
  for (int i = 0; i < kGpus; ++i) {
    v1::MeasuredGpu& gpu = *measured.mutable_gpus()->add_gpus();
    gpu.set_uuid(fmt::format("GPU-{:05}-{}", number, i));
    gpu.set_pci_address(fmt::format("0000:{:02x}:00.0", 16 + i));
    gpu.set_product("H100");
    gpu.set_memory_bytes(uint64_t{80} << 30);
    gpu.set_numa_node(i / 4);
    for (uint32_t link = 0; link < kNvlinks; ++link) {
      v1::MeasuredLink& each = *gpu.add_links();
      each.set_number(link);
      each.set_up(true);
      each.set_remote(v1::MeasuredLink::REMOTE_SWITCH);
      each.set_bytes_per_second(26'562'000'000);
    }
  }
  for (int i = 0; i < kNics; ++i) {
    v1::MeasuredNic& nic = *measured.mutable_nics()->add_nics();
    nic.set_device(fmt::format("mlx5_{}", i));
    nic.set_node_guid(0x1000'0000'0000ULL + static_cast<uint64_t>(number * 16 + i));
    nic.set_pci_address(fmt::format("0000:{:02x}:00.0", 64 + i));
    v1::MeasuredPort& port = *nic.add_ports();
    port.set_number(1);
    port.set_guid(0x2000'0000'0000ULL + static_cast<uint64_t>(number * 16 + i));
    port.set_active(true);
    port.set_state("ACTIVE");
    port.set_bits_per_second(400'000'000'000);
  }
  return measured;
}

class FixedCertificate final : public server::CertificateSource {
 public:
  explicit FixedCertificate(server::TlsMaterial material)
      : material_(std::make_shared<const server::TlsMaterial>(std::move(material))) {}
  std::shared_ptr<const server::TlsMaterial> Current() override { return material_; }

 private:
  const std::shared_ptr<const server::TlsMaterial> material_;
};

server::TlsMaterial MakeCertificates(const std::string& folder) {
  const absl::Time now = base::SystemClock().Now();
  const server::Validity validity = {now - absl::Hours(1), now + absl::Hours(24)};
  const auto authority = server::MakeAuthority({.common_name = "bench", .validity = validity});
  const auto server = server::IssueCertificate(
      *authority, {.common_name = "localhost", .dns_names = {"localhost"}, .validity = validity});
  const auto agent =
      server::IssueCertificate(*authority, {.common_name = agent::kAgentName,
                                            .dns_names = {agent::kAgentName},
                                            .use = server::CertificateUse::kServerAndClient,
                                            .validity = validity});
  Write(folder + "/ca.crt", authority->certificate);
  Write(folder + "/tls.crt", agent->certificate);
  Write(folder + "/tls.key", agent->key);
  return {.certificate = server->certificate,
          .key = server->key,
          .client_authorities = authority->certificate};
}

// "VmRSS:" or "VmHWM:", in KiB.
int64_t MemoryKib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string name; status >> name;) {
    if (name == field) {
      int64_t value = 0;
      status >> value;
      return value;
    }
  }
  return 0;
}

std::string Figures(const base::MetricRegistry& registry) {
  std::istringstream page(registry.Expose());
  std::map<std::string, double> values;
  for (std::string line; std::getline(page, line);) {
    if (const size_t space = line.find(' '); space != std::string::npos && line[0] != '#') {
      values[line.substr(0, space)] = std::atof(line.c_str() + space);
    }
  }
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  json figures = json::object();
  figures["cpu_seconds"] = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  figures["resident_kib"] = MemoryKib("VmRSS:");
  figures["most_resident_kib"] = MemoryKib("VmHWM:");
  figures["attached"] = values["asterism_agents_attached"];
  figures["streams"] = values["asterism_agent_streams"];
  figures["relays"] = values["asterism_agent_relays"];
  figures["members"] = values["asterism_agent_relay_members"];
  return figures.dump();
}

int Serve(const std::string& folder, int nodes, const std::string& mode) {
  base::SystemClock clock;
  base::ThreadExecutor core("core");
  base::MetricRegistry registry;
  kube::testing::FakeApiServer api(clock, core, {});
  FakeReviews reviews(api);
  Configuration configuration;
  configuration.agents.enabled = true;
  configuration.agents.relays.mode = mode == "Off"  ? RelayMode::kOff
                                     : mode == "On" ? RelayMode::kOn
                                                    : RelayMode::kAuto;
  // A machine that is shared with all these agents may hold the controller up for seconds; what a
  // change of the leader costs is not measured here.
  configuration.leader_election = {.lease_duration = absl::Hours(1),
                                   .renew_deadline = absl::Minutes(50),
                                   .retry_period = absl::Seconds(2)};
  // Nobody but the leader's own labels would be written: that is another benchmark's.
  configuration.topology.label_nodes = false;
  auto plane = std::make_unique<ControlPlane>(
      ControlPlane::Dependencies{clock, core, base::Rng(1), api, api, registry}, configuration,
      Identity{.name = "bench"});
  core.Post([&] {
    api.Put(kube::kNamespaces, {{"metadata", {{"name", "asterism-system"}}}});
    for (int node = 0; node < nodes; ++node) {
      api.Put(kube::kNodes, NodeObject(node));
      reviews.AddNodeUser(TokenOf(NodeName(node)), kAgents, NodeName(node));
    }
    plane->Start();
  });
  FixedCertificate certificate(MakeCertificates(folder));
  PlacementEdge placement({clock, core, api, *plane, registry}, {});
  AgentEdge agents({clock, core, api, *plane, plane->agents(), registry},
                   {.user = kAgents,
                    .streams_max = StreamsMax(configuration.agents.relays),
                    .identity = {.new_token_period = absl::Milliseconds(5)},
                    .relays = configuration.agents.relays});
  auto server =
      GrpcServer::Start(ServicesOf(placement, &agents), [&plane] { return plane->leading(); },
                        // All agents are at one address.
                        {.listener = {.address = "127.0.0.1",
                                      .connections_max = 100'000,
                                      .connections_per_address_max = 100'000},
                         .certificates = &certificate});
  if (!server.ok()) {
    std::cerr << server.status() << "\n";
    return 1;
  }
  while (!plane->leading()) {
    absl::Notification().WaitForNotificationWithTimeout(absl::Milliseconds(20));
  }
  std::cout << json({{"port", (*server)->port()}}).dump() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << Figures(registry) << std::endl;
  }
  (*server)->Stop();
  core.Stop();
  placement.Stop();
  agents.Stop();
  plane.reset();
  return 0;
}

int Drive(const std::string& folder, int port, int first, int count, int per_second) {
  base::ThreadExecutor core("agents");
  const base::Rng rng(static_cast<uint64_t>(first) + 1);
  std::vector<std::unique_ptr<agent::ControllerLink>> links;
  for (int node = first; node < first + count; ++node) {
    const std::string name = NodeName(node);
    const std::string token = folder + "/" + TokenOf(name);
    Write(token, TokenOf(name));
    agent::ControllerLinkOptions options{.address = fmt::format("127.0.0.1:{}", port),
                                         .server_name = "localhost",
                                         .authority_path = folder + "/ca.crt",
                                         .certificate_path = folder + "/tls.crt",
                                         .key_path = folder + "/tls.key",
                                         .token_path = token,
                                         .relay_host = "127.0.0.1"};
    options.hello.set_node(name);
    options.hello.set_boot_id("bench");
    links.push_back(std::make_unique<agent::ControllerLink>(core, rng.Fork(name), options));
    core.PostAfter(absl::Seconds(static_cast<double>(node - first) / per_second),
                   [link = links.back().get(), node] {
                     link->Tell(MeasurementOf(node));
                     link->Start();
                   });
  }
  std::cout << "{}" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
  }
  std::_Exit(0);  // taking thousands of streams down is no part of it
}

}  // namespace
}  // namespace asterism::controller

int main(int count, char** arguments) {
  const std::vector<std::string> given(arguments + 1, arguments + count);
  asterism::base::SetUpLog(asterism::base::LogFormat::kText, asterism::base::LogLevel::kError);
  asterism::base::RaiseOpenFileLimit();
  if (given.size() == 4 && given[0] == "serve") {
    return asterism::controller::Serve(given[1], std::stoi(given[2]), given[3]);
  }
  if (given.size() == 6 && given[0] == "drive") {
    return asterism::controller::Drive(given[1], std::stoi(given[2]), std::stoi(given[3]),
                                       std::stoi(given[4]), std::stoi(given[5]));
  }
  std::cerr << "usage: test/bench/run heartbeats\n";
  return 2;
}
