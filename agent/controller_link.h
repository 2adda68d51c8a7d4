// File: agent/controller_link.h
//
// The agent's one stream to the leading controller. What is to be told is state: a newer one takes
// the place of one that was not sent yet, so nothing piles up while the controller is away; after a
// break all of it is told again.
//
//   ControllerLink link(executor, rng, options);
//   link.Start();
//   link.Tell(devices);  link.Tell(pod_report);  link.Forget(pod_uid);
//   link.Tell(measurement);   // all parts that are known; only what has changed is sent
//
// Shows the client certificate of the agents and the token of its ServiceAccount, both read anew
// for every connection. Connects again after 1 to 10 s.
//
// Thread-safety: on the executor. Cost: one connection, a beat every 10 s.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/probe/measurement_feed.h"
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
  v1::AgentHello hello;
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
  class Stream;

  void Connect();
  absl::Status Open();
  void OnWelcome(uint64_t number, const v1::AgentWelcome& welcome);
  void OnMeasurementWanted(uint64_t number);
  void OnWritten(uint64_t number);
  void OnBroken(uint64_t number);
  void OnEnd(uint64_t number, const std::string& why);
  void SendNext();
  void Retry(const std::string& why);

  base::Executor& executor_;
  base::Rng rng_;
  const ControllerLinkOptions options_;
  // The newest state, and what of it has not been sent on this stream.
  std::optional<v1::DeviceReport> devices_;
  std::map<std::string, v1::PodReport> pods_;
  MeasurementFeed measurement_;
  bool devices_due_ = false;
  std::map<std::string, bool> pods_due_;
  bool beat_due_ = false;
  std::shared_ptr<Stream> stream_;
  // Of the last stream, until the next one has begun; see Open.
  std::shared_ptr<grpc::Channel> channel_;
  uint64_t stream_number_ = 0;
  bool attached_ = false;
  bool writing_ = false;
  bool broken_ = false;  // nothing may be written on this stream any more
  int failures_ = 0;
  std::string complaint_;
  base::OwnedTimer retry_timer_;
  base::OwnedTimer beat_timer_;
};

}  // namespace asterism::agent
