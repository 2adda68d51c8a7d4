// Agents of simulated nodes: the agent's own link to the controller, told what it is to tell.
//
//   export ASTERISM_CA=... ASTERISM_CERTIFICATE=... ASTERISM_KEY=... ASTERISM_TOKENS=FOLDER
//   simulated_agents 127.0.0.1:9443
//   {"node": "gpu-0000", "token": "...", "measurement": {"gpus": {...}}}     # a line of stdin
//
// The first line of a node starts its agent, with the token in a file of the folder. With
// ASTERISM_RELAY_HOST agents can be relays, and listen at that address. Ends with stdin.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <string>

#include "agent/controller_link.h"
#include "base/executor.h"
#include "base/log.h"
#include "base/rng.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"

namespace {

namespace v1 = asterism::v1;
using asterism::agent::ControllerLink;
using asterism::agent::ControllerLinkOptions;

std::string VariableOf(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before any thread
  return value == nullptr ? "" : value;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: simulated_agents ADDRESS\n";
    return 2;
  }
  asterism::base::SetUpLog(asterism::base::LogFormat::kText, asterism::base::LogLevel::kInfo);
  ControllerLinkOptions options{.address = arguments[1],
                                .server_name = "asterism-extender",
                                .authority_path = VariableOf("ASTERISM_CA"),
                                .certificate_path = VariableOf("ASTERISM_CERTIFICATE"),
                                .key_path = VariableOf("ASTERISM_KEY"),
                                .relay_host = VariableOf("ASTERISM_RELAY_HOST")};
  const std::string tokens = VariableOf("ASTERISM_TOKENS");
  options.hello.set_boot_id("simulated");
  const asterism::base::Rng rng(asterism::base::Rng::SystemSeed());
  asterism::base::ThreadExecutor core("agents");
  std::map<std::string, std::unique_ptr<ControllerLink>> links;
  int code = 0;
  std::string text;
  while (std::getline(std::cin, text)) {
    const nlohmann::json line = nlohmann::json::parse(text, nullptr, false);
    v1::NodeMeasurement measurement;
    if (!line.is_object() || !line.contains("node") ||
        !google::protobuf::util::JsonStringToMessage(
             line.value("measurement", nlohmann::json::object()).dump(), &measurement)
             .ok()) {
      std::cerr << "not a line of an agent: " << text << "\n";
      code = 1;
      break;
    }
    const std::string node = line["node"];
    std::unique_ptr<ControllerLink>& link = links[node];
    const bool first = link == nullptr;
    if (first) {
      options.hello.set_node(node);
      options.token_path = tokens + "/token-of-" + node;
      std::ofstream(options.token_path) << line.value("token", "");
      link = std::make_unique<ControllerLink>(core, rng.Fork(node), options);
    }
    core.Post([link = link.get(), measurement, first] {
      link->Tell(measurement);
      if (first) {
        link->Start();
      }
    });
  }
  core.Stop();
  links.clear();
  return code;
}
