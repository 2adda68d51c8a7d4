// File: agent/controller_link.h
//
// The agent's way to the leading controller: one stream of its own or, where the controller offers
// one, through a relay. What is to be told is state: a newer one takes the place of one that was
// not sent yet, so nothing piles up while the controller is away; after a break, and after a change
// of the way, all of it is told again.
//
//   ControllerLink link(executor, rng, options);
//   link.Start();
//   link.Tell(devices);  link.Tell(pod_report);  link.Forget(pod_uid);
//   link.Tell(measurement);   // all parts that are known; only what has changed is sent
//
// Shows the client certificate of the agents and the token of its ServiceAccount, both read anew
// for every connection. Connects again after 1 to 10 s, up to 60 s where the controller has no
// room.
//
// The stream of its own ends when the controller has answered through the relay. A relay that dies,
// or answers no ping for 7 s, is left at once: within 0.3 s, so that its members do not all come in
// one moment, the agent connects to the controller again and says so.
//
// Made a relay by the controller, it carries the frames of its members (relay_port.h): beats wait
// two seconds for each other. Its members are sent away when its own stream breaks.
//
// Thread-safety: on the executor. Cost: one connection, a beat every 10 s; for a relay that of the
// port too.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/controller_stream.h"
#include "agent/probe/measurement_feed.h"
#include "agent/relay_port.h"
#include "asterism/v1/agent.pb.h"
#include "base/executor.h"
#include "base/rng.h"

namespace grpc {
class Channel;
}

namespace asterism::agent {

struct ControllerLinkOptions {
  std::string address;      // host:port
  std::string server_name;  // in the controller's certificate; empty: the host
  // Files, PEM; all empty: plain text, where the network is closed to strangers.
  std::string authority_path;
  std::string certificate_path;
  std::string key_path;
  std::string token_path;  // of the ServiceAccount
  v1::AgentHello hello;    // whether it may be a relay, or join one, is set here
  // Where it listens when it is a relay; its files are those above.
  std::string relay_host;
  uint16_t relay_port = 0;
  // Measurements count on from here; see MeasurementFeed.
  uint64_t first_generation = 0;
};

class ControllerLink {
 public:
  ControllerLink(base::Executor& executor, base::Rng rng, ControllerLinkOptions options);
  ~ControllerLink();
  ControllerLink(const ControllerLink&) = delete;
  ControllerLink& operator=(const ControllerLink&) = delete;

  void Start();
  void Tell(v1::DeviceReport devices);
  void Tell(v1::PodReport pod);
  void Tell(const v1::NodeMeasurement& measurement);
  // The pod is gone: it is not told again.
  void Forget(const std::string& pod_uid);
  bool attached() const { return attached_; }

 private:
  // A stream that is there, or is being tried.
  struct Way {
    std::shared_ptr<ControllerStream> stream;  // null: there is none
    uint64_t number = 0;                       // what an earlier stream says has another one
    std::string relay;                         // node of the relay; empty: the controller itself
    bool writing = false;
    bool broken = false;  // nothing may be written any more
  };

  void Connect();
  absl::Status Open();
  ControllerStream::Listener ListenerOf(uint64_t number);
  void Begin(Way& way, std::shared_ptr<ControllerStream> stream, std::string relay);
  static void Drop(Way& way);
  Way* Find(uint64_t number);
  void OnFrame(uint64_t number, const v1::ControllerFrame& frame);
  void OnWelcome(Way& way, const v1::AgentWelcome& welcome);
  void OnOffer(const v1::RelayOffer& offer);
  void OnTask(const v1::RelayTask& task);
  void OnEnd(uint64_t number, const std::string& why, bool crowded);
  void OnRelayFailed(const std::string& relay, const std::string& why);
  void OnRelayWaiting();
  void StartBeat();
  bool TakeNext(v1::AgentFrame& frame);
  void SendNext();
  void Complain(const std::string& why);
  void Retry(absl::Duration longest);

  base::Executor& executor_;
  base::Rng rng_;
  const ControllerLinkOptions options_;
  // The newest state, and what of it has not been sent on this way.
  std::optional<v1::DeviceReport> devices_;
  std::map<std::string, v1::PodReport> pods_;
  MeasurementFeed measurement_;
  bool devices_due_ = false;
  std::map<std::string, bool> pods_due_;
  bool beat_due_ = false;
  std::optional<v1::RelayState> relay_state_due_;
  std::optional<v1::RelayLost> relay_lost_due_;
  Way way_;
  Way next_;  // to a relay, until the controller answers through it
  // Of the last stream, until the next one has begun; see Begin.
  std::shared_ptr<grpc::Channel> channel_;
  uint64_t last_number_ = 0;
  bool attached_ = false;
  int failures_ = 0;
  std::string complaint_;
  std::unique_ptr<RelayPort> relay_;  // null: it has been none
  base::OwnedTimer retry_timer_;
  base::OwnedTimer beat_timer_;
  base::OwnedTimer join_timer_;
  base::OwnedTimer hold_timer_;
};

}  // namespace asterism::agent
