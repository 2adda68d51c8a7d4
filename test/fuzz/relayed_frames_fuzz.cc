// What a relay sends: any frames, some of them sealed as its member would seal them. Nobody speaks
// but that member, and the books of the controller stay in step.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/check.h"
#include "controller/agent_relays.h"

namespace asterism::controller {
namespace {

struct Desk {
  base::SimClock clock;
  base::SimExecutor core{clock};
  base::MetricRegistry registry;
  RelayMetrics metrics{registry};
  operators::WorkerReports reports;
  AgentRegistry agents{{.clock = clock,
                        .registry = registry,
                        .reports = reports,
                        .on_report = [](std::string_view) {},
                        .tell = [](const NodeNote&) {},
                        .on_measured =
                            [](const topology::NodeReport& report) {
                              CHECK_THAT(report.node == "gpu-1", "a report of nobody");
                            },
                        .on_heard = [](const std::string&) {},
                        .on_islands = [](const std::string&, const scheduler::GpuIslands&) {}},
                       {"nvidia.com/gpu"}};
  std::shared_ptr<const topology::Cluster> cluster = std::make_shared<const topology::Cluster>(
      *topology::BuildCluster({"node"}, {{.name = "gpu-0"}, {.name = "gpu-1"}}));
  uint64_t last = 0;
  v1::RelayOffer offer;
  AgentRelays relays{
      {.clock = clock,
       .core = core,
       .agents = agents,
       .metrics = metrics,
       .cluster = [this] { return cluster; },
       .next_number = [this] { return ++last; },
       .welcome = [] { return v1::ControllerFrame(); },
       .tell =
           [this](uint64_t, const v1::ControllerFrame& frame) {
             if (frame.has_relay_offer()) {
               offer = frame.relay_offer();
             }
           },
       .on_frame = [this](uint64_t number, const v1::AgentFrame& frame) -> absl::Status {
         agents.Hear(number);
         if (frame.has_measurement()) {
           agents.OnMeasurement(number, frame.measurement());
         }
         return frame.has_devices() ? agents.OnDevices(number, frame.devices())
                : frame.has_pod()   ? agents.OnPod(number, frame.pod())
                                    : absl::OkStatus();
       }},
      {.mode = RelayMode::kOn}};

  uint64_t Attach(const std::string& node, bool may_relay) {
    v1::AgentHello hello;
    hello.set_node(node);
    hello.set_may_relay(may_relay);
    hello.set_may_join(true);
    agents.Attach(++last, hello);
    relays.OnAttached(last, hello);
    return last;
  }
};

void Relay(const uint8_t* data, size_t size) {
  v1::SealedFrames batch;
  if (size < 1 || !batch.ParseFromArray(data + 1, static_cast<int>(size - 1))) {
    return;
  }
  Desk desk;
  const uint64_t relay = desk.Attach("gpu-0", true);
  desk.Attach("gpu-1", false);
  desk.core.RunFor(absl::Seconds(1));
  v1::RelayState state;
  state.set_address("10.0.0.1:9444");
  CHECK_THAT(desk.relays.OnState(relay, state).ok(), "the relay is none");
  desk.core.RunFor(absl::Seconds(1));
  CHECK_THAT(desk.offer.session() != 0, "nothing was offered");
  const base::FrameSeal seal(desk.offer.key(), desk.offer.session(), base::SealDirection::kUp);
  uint64_t number = 0;
  for (v1::SealedFrame& frame : *batch.mutable_frames()) {
    if ((data[0] & 1) != 0 || frame.session() == 1) {
      frame.set_session(desk.offer.session());
    }
    if (frame.number() < 16) {  // as the member would
      if (number == 0 && (data[0] & 2) != 0) {
        v1::AgentFrame hello;
        hello.mutable_hello()->set_node("gpu-1");
        frame.set_frame(hello.SerializeAsString());
      }
      frame.set_number(++number);
      frame.set_seal(seal.Of(number, frame.frame()));
    }
  }
  CHECK_THAT(desk.relays.OnRelayed(relay, batch).ok(), "the relay's stream ended");
  CHECK_THAT(desk.relays.members() <= 1, "a member too many");
  CHECK_THAT(desk.agents.attached() <= 2, "an agent too many");
  for (const v1::SealedFrame& frame : batch.frames()) {
    v1::RelayLost lost;
    lost.set_relay(frame.frame());
    desk.relays.OnLost(relay, lost);
    state.set_address(frame.frame());
    desk.relays.OnState(relay, state).IgnoreError();
  }
  desk.core.RunFor(absl::Seconds(20));
  desk.relays.OnGone(relay);
  CHECK_THAT(desk.relays.members() == 0, "a member without its relay");
}

}  // namespace
}  // namespace asterism::controller

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  asterism::controller::Relay(data, size);
  return 0;
}
