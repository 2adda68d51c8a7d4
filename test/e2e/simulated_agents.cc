// Agents of simulated nodes: attaches to asterism.v1.Agents for each node and tells what it is
// told.
//
//   ASTERISM_CA=... ASTERISM_CERTIFICATE=... ASTERISM_KEY=... simulated_agents 127.0.0.1:9443
//   {"node": "gpu-0000", "token": "...", "measurement": {"gpus": {...}}}     # a line of stdin
//
// The first line of a node attaches its agent. Each measurement is sent as a whole, under a new
// generation; where the controller wants it again, it is sent again. Agents beat each ten seconds,
// and attach again a second after their stream has ended.
// Prints a JSON object a line: {"node": ..., "event": "welcome" | "wanted" | "ended", "text": ...}.
// Ends with stdin.
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "asterism/v1/agent.grpc.pb.h"
#include "google/protobuf/util/json_util.h"
#include "grpcpp/grpcpp.h"
#include "nlohmann/json.hpp"

namespace {

namespace v1 = asterism::v1;

constexpr std::chrono::seconds kLook{1};
constexpr int kLooksOfABeat = 10;

std::string VariableOf(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before any thread
  return value == nullptr ? "" : value;
}

std::string TextOfFile(const char* variable) {
  std::ifstream file(VariableOf(variable));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void Tell(const std::string& node, const char* event, const std::string& text) {
  static std::mutex& mutex = *new std::mutex;
  nlohmann::json line = nlohmann::json::object();
  line["node"] = node;
  line["event"] = event;
  line["text"] = text;
  const std::lock_guard<std::mutex> lock(mutex);
  std::cout << line.dump() << std::endl;
}

class Agent final : public grpc::ClientBidiReactor<v1::AgentFrame, v1::ControllerFrame> {
 public:
  Agent(v1::Agents::Stub& stub, std::string node, const std::string& token)
      : node_(std::move(node)), token_(token) {
    context_.AddMetadata("authorization", "Bearer " + token);
    stub.async()->Attach(&context_, this);
    v1::AgentFrame hello;
    hello.mutable_hello()->set_node(node_);
    hello.mutable_hello()->set_boot_id("simulated");
    Send(hello);
    StartRead(&answer_);
    StartCall();
  }

  void Measure(const v1::NodeMeasurement& measurement) {
    const std::lock_guard<std::mutex> lock(mutex_);
    measurement_ = measurement;
    SendMeasurement();
  }
  bool over() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return done_;
  }
  // The same once more, on a new stream.
  std::unique_ptr<Agent> Again(v1::Agents::Stub& stub) {
    auto again = std::make_unique<Agent>(stub, node_, token_);
    again->Measure(measurement_);
    return again;
  }
  void Beat() {
    v1::AgentFrame beat;
    beat.mutable_beat();
    const std::lock_guard<std::mutex> lock(mutex_);
    Queue(std::move(beat));
  }
  void Stop() {
    context_.TryCancel();
    std::unique_lock<std::mutex> lock(mutex_);
    over_.wait(lock, [this] { return done_; });
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) {
      return;
    }
    if (answer_.has_welcome()) {
      Tell(node_, "welcome", answer_.welcome().controller());
      const std::lock_guard<std::mutex> lock(mutex_);
      welcome_ = true;
      SendMeasurement();
    } else if (answer_.has_measurement_wanted()) {
      Tell(node_, "wanted", "");
      const std::lock_guard<std::mutex> lock(mutex_);
      SendMeasurement();
    }
    StartRead(&answer_);
  }
  void OnWriteDone(bool ok) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    writing_ = false;
    if (ok) {
      Next();
    }
  }
  void OnDone(const grpc::Status& status) override {
    Tell(node_, "ended", status.error_message());
    const std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
    over_.notify_all();
  }

  void Send(const v1::AgentFrame& frame) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Queue(frame);
  }
  // With the lock held.
  void SendMeasurement() {
    if (welcome_) {
      v1::AgentFrame frame;
      *frame.mutable_measurement() = measurement_;
      frame.mutable_measurement()->set_full(true);
      frame.mutable_measurement()->set_generation(++generation_);
      Queue(std::move(frame));
    }
  }
  void Queue(v1::AgentFrame frame) {
    frames_.push_back(std::move(frame));
    Next();
  }
  void Next() {
    if (!writing_ && !done_ && !frames_.empty()) {
      frame_ = std::move(frames_.front());
      frames_.pop_front();
      writing_ = true;
      StartWrite(&frame_);
    }
  }

  const std::string node_;
  const std::string token_;
  grpc::ClientContext context_;
  v1::ControllerFrame answer_;
  std::mutex mutex_;
  std::condition_variable over_;
  std::deque<v1::AgentFrame> frames_;
  v1::AgentFrame frame_;
  v1::NodeMeasurement measurement_;
  uint64_t generation_ = 0;
  bool welcome_ = false;
  bool writing_ = false;
  bool done_ = false;
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: simulated_agents ADDRESS\n";
    return 2;
  }
  grpc::ChannelArguments options;
  options.SetSslTargetNameOverride("asterism-extender");
  const auto channel = grpc::CreateCustomChannel(
      arguments[1],
      grpc::SslCredentials({.pem_root_certs = TextOfFile("ASTERISM_CA"),
                            .pem_private_key = TextOfFile("ASTERISM_KEY"),
                            .pem_cert_chain = TextOfFile("ASTERISM_CERTIFICATE")}),
      options);
  const auto stub = v1::Agents::NewStub(channel);
  std::mutex mutex;
  std::condition_variable wake;
  std::map<std::string, std::unique_ptr<Agent>> agents;
  bool ending = false;
  std::thread beats([&] {
    std::unique_lock<std::mutex> lock(mutex);
    for (int look = 1; !wake.wait_for(lock, kLook, [&] { return ending; }); ++look) {
      for (auto& [node, agent] : agents) {
        if (agent->over()) {
          agent = agent->Again(*stub);
        } else if (look % kLooksOfABeat == 0) {
          agent->Beat();
        }
      }
    }
  });
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
    const std::lock_guard<std::mutex> lock(mutex);
    std::unique_ptr<Agent>& agent = agents[line["node"]];
    if (agent == nullptr) {
      agent = std::make_unique<Agent>(*stub, line["node"], line.value("token", ""));
    }
    agent->Measure(measurement);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex);
    ending = true;
  }
  wake.notify_all();
  beats.join();
  for (const auto& [node, agent] : agents) {
    agent->Stop();
  }
  return code;
}
