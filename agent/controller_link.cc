#include "agent/controller_link.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/frame_seal.h"
#include "base/log.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "grpcpp/channel.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"

namespace asterism::agent {
namespace {

constexpr absl::Duration kBeatPeriod = absl::Seconds(10);
constexpr absl::Duration kWelcomeLimit = absl::Seconds(15);
constexpr absl::Duration kRetryMin = absl::Seconds(1);
constexpr absl::Duration kRetryMax = absl::Seconds(10);
constexpr absl::Duration kCrowdedRetryMax = absl::Seconds(60);
// In which the members of a relay that has died come back, a handshake of 2 ms each.
constexpr absl::Duration kReturnSpread = absl::Milliseconds(300);
// Its own stream is in use until then, so there is no haste.
constexpr absl::Duration kJoinLimit = absl::Seconds(10);
// How long a beat of a member waits for others, so that they are one message.
constexpr absl::Duration kBeatHold = absl::Seconds(2);
// A relay is gone that does not answer a ping for so long; nodes whose cores are all busy answer
// late.
constexpr int kRelayPingMilliseconds = 2'000;
constexpr int kRelayAnswerMilliseconds = 5'000;

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(
    const ControllerLinkOptions& options) {
  if (options.authority_path.empty()) {
    return grpc::InsecureChannelCredentials();
  }
  grpc::SslCredentialsOptions ssl;
  ASSIGN_OR_RETURN(ssl.pem_root_certs, base::ReadSmallFile(options.authority_path));
  ASSIGN_OR_RETURN(ssl.pem_cert_chain, base::ReadSmallFile(options.certificate_path));
  ASSIGN_OR_RETURN(ssl.pem_private_key, base::ReadSmallFile(options.key_path));
  return grpc::SslCredentials(ssl);
}

// `ping_ms`, and then `timeout_ms` for the answer: a dead node answers nothing, not even a reset.
grpc::ChannelArguments ArgumentsOf(const std::string& server_name, int ping_ms, int timeout_ms) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, ping_ms);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, timeout_ms);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Each attempt is to see the certificates of the moment.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (!server_name.empty()) {
    arguments.SetSslTargetNameOverride(server_name);
  }
  return arguments;
}

ControllerLinkOptions WithRelays(ControllerLinkOptions options) {
  options.hello.set_may_relay(!options.relay_host.empty());
  options.hello.set_may_join(true);
  return options;
}

}  // namespace

ControllerLink::ControllerLink(base::Executor& executor, base::Rng rng,
                               ControllerLinkOptions options)
    : executor_(executor),
      rng_(std::move(rng)),
      options_(WithRelays(std::move(options))),
      measurement_(options_.first_generation),
      retry_timer_(executor),
      beat_timer_(executor),
      join_timer_(executor),
      hold_timer_(executor) {}

ControllerLink::~ControllerLink() {
  Drop(way_);
  Drop(next_);
  // As in Begin: the process ends without the threads ending before.
  static auto* const kept = new std::vector<std::shared_ptr<grpc::Channel>>;
  kept->push_back(std::move(channel_));
}

void ControllerLink::Start() {
  Connect();
}

void ControllerLink::Tell(v1::DeviceReport devices) {
  devices_ = std::move(devices);
  devices_due_ = true;
  SendNext();
}

void ControllerLink::Tell(v1::PodReport pod) {
  const std::string uid = pod.pod_uid();
  pods_[uid] = std::move(pod);
  pods_due_[uid] = true;
  SendNext();
}

void ControllerLink::Tell(const v1::NodeMeasurement& measurement) {
  measurement_.Set(measurement);
  SendNext();
}

void ControllerLink::Forget(const std::string& pod_uid) {
  pods_.erase(pod_uid);
  pods_due_.erase(pod_uid);
}

void ControllerLink::Connect() {
  if (const absl::Status opened = Open(); !opened.ok()) {
    Complain(std::string(opened.message()));
    Retry(kRetryMax);
  }
}

absl::Status ControllerLink::Open() {
  ASSIGN_OR_RETURN(const auto credentials, CredentialsOf(options_));
  std::string token;
  if (!options_.token_path.empty()) {
    ASSIGN_OR_RETURN(token, base::ReadSmallFile(options_.token_path));
    token.erase(token.find_last_not_of(" \r\n") + 1);
  }
  auto channel = grpc::CreateCustomChannel(options_.address, credentials,
                                           ArgumentsOf(options_.server_name, 15'000, 5'000));
  attached_ = false;
  way_.number = ++last_number_;
  Begin(way_, ControllerStream::Direct(ListenerOf(way_.number), channel, token), "");
  channel_ = std::move(channel);
  // The same timer as for the beat: one of the two is due.
  beat_timer_.Start(kWelcomeLimit, [this, number = way_.number] {
    OnEnd(number, "the controller does not answer", false);
  });
  return absl::OkStatus();
}

// The number guards against a late word of an earlier stream; the owner stops the executor before
// it ends the link.
ControllerStream::Listener ControllerLink::ListenerOf(uint64_t number) {
  return {.executor = &executor_,
          .on_frame = [this, number](const v1::ControllerFrame& frame) { OnFrame(number, frame); },
          .on_written =
              [this, number] {
                if (Way* way = Find(number); way != nullptr) {
                  way->writing = false;
                  SendNext();
                }
              },
          .on_broken =
              [this, number] {
                if (Way* way = Find(number); way != nullptr) {
                  way->broken = true;
                  way->stream->Abandon();
                }
              },
          .on_end = [this, number](const std::string& why,
                                   bool crowded) { OnEnd(number, why, crowded); }};
}

// gRPC 1.51 ends its callback threads with the last channel that uses them, and while they end one
// of them may touch a queue that is already gone. So the caller keeps the last channel until this
// stream uses them too.
void ControllerLink::Begin(Way& way, std::shared_ptr<ControllerStream> stream, std::string relay) {
  way.stream = std::move(stream);
  way.relay = std::move(relay);
  way.broken = false;
  way.writing = true;
  way.stream->Begin();
  v1::AgentFrame hello;
  *hello.mutable_hello() = options_.hello;
  way.stream->Write(hello);
}

void ControllerLink::Drop(Way& way) {
  if (way.stream != nullptr) {
    way.stream->Silence();
    way.stream->Abandon();
  }
  way = {};
}

ControllerLink::Way* ControllerLink::Find(uint64_t number) {
  for (Way* way : {&way_, &next_}) {
    if (way->stream != nullptr && way->number == number) {
      return way;
    }
  }
  return nullptr;
}

void ControllerLink::OnFrame(uint64_t number, const v1::ControllerFrame& frame) {
  Way* const way = Find(number);
  if (way == nullptr) {
    return;
  }
  if (frame.has_welcome()) {
    OnWelcome(*way, frame.welcome());
  } else if (way != &way_ || !attached_) {
    return;  // nothing else comes before the welcome
  } else if (frame.has_measurement_wanted()) {
    measurement_.WantFull();
  } else if (!way->relay.empty()) {
    return;  // who speaks through a relay is none, and is offered none
  } else if (frame.has_relay_offer()) {
    OnOffer(frame.relay_offer());
  } else if (frame.has_relay_task()) {
    OnTask(frame.relay_task());
  } else if (frame.has_relayed() && relay_ != nullptr) {
    relay_->members().Deliver(frame.relayed());
  }
  SendNext();
}

void ControllerLink::OnWelcome(Way& way, const v1::AgentWelcome& welcome) {
  if (&way == &next_) {
    join_timer_.Cancel();
    Drop(way_);
    way_ = std::exchange(next_, {});
    relay_.reset();
    relay_state_due_.reset();
  }
  base::LogInfo("attached", {{"controller", welcome.controller()},
                             {"version", welcome.controller_version()},
                             {"address", options_.address},
                             {"relay", way_.relay}});
  attached_ = true;
  failures_ = 0;
  complaint_.clear();
  devices_due_ = devices_.has_value();
  for (const auto& [uid, report] : pods_) {
    pods_due_[uid] = true;
  }
  measurement_.WantFull();
  beat_due_ = false;
  StartBeat();
}

void ControllerLink::StartBeat() {
  beat_timer_.Start(kBeatPeriod, [this] {
    beat_due_ = true;
    SendNext();
  });
}

void ControllerLink::OnOffer(const v1::RelayOffer& offer) {
  if (next_.stream != nullptr || offer.key().size() != base::kSealKeyBytes) {
    return;
  }
  const auto credentials = CredentialsOf(options_);
  if (!credentials.ok()) {
    OnRelayFailed(offer.relay(), std::string(credentials.status().message()));
    return;
  }
  auto channel =
      grpc::CreateCustomChannel(offer.address(), *credentials,
                                ArgumentsOf(options_.authority_path.empty() ? "" : kAgentName,
                                            kRelayPingMilliseconds, kRelayAnswerMilliseconds));
  next_.number = ++last_number_;
  Begin(next_, ControllerStream::Relayed(ListenerOf(next_.number), channel, offer), offer.relay());
  channel_ = std::move(channel);
  join_timer_.Start(kJoinLimit, [this, number = next_.number] {
    OnEnd(number, "no answer comes through the relay", false);
  });
}

void ControllerLink::OnTask(const v1::RelayTask& task) {
  if (task.members_max() == 0) {
    relay_.reset();
    return;
  }
  relay_state_due_.emplace();
  if (relay_ == nullptr) {
    absl::StatusOr<std::unique_ptr<RelayPort>> opened =
        RelayPort::Open({.host = options_.relay_host,
                         .port = options_.relay_port,
                         .authority_path = options_.authority_path,
                         .certificate_path = options_.certificate_path,
                         .key_path = options_.key_path},
                        executor_, [this] { OnRelayWaiting(); });
    if (!opened.ok()) {
      base::LogWarning("relay_not_opened", {{"error", std::string(opened.status().message())}});
      relay_state_due_->set_problem(std::string(opened.status().message()));
      return;
    }
    relay_ = *std::move(opened);
    base::LogInfo("relay_opened", {{"address", relay_->address()}});
  }
  relay_->members().Open(task.members_max());
  relay_state_due_->set_address(relay_->address());
}

void ControllerLink::OnRelayWaiting() {
  if (relay_ == nullptr) {
    return;
  }
  switch (relay_->members().urgency()) {
    case RelayMembers::Urgency::kNothing:
      break;
    case RelayMembers::Urgency::kCanWait:
      if (!hold_timer_.pending()) {
        hold_timer_.Start(kBeatHold, [this] { SendNext(); });
      }
      break;
    case RelayMembers::Urgency::kNow:
      SendNext();
      break;
  }
}

// What is of this node goes first: there is little of it.
bool ControllerLink::TakeNext(v1::AgentFrame& frame) {
  if (relay_lost_due_.has_value() && way_.relay.empty()) {
    *frame.mutable_relay_lost() = *std::exchange(relay_lost_due_, std::nullopt);
  } else if (relay_state_due_.has_value()) {
    *frame.mutable_relay_state() = *std::exchange(relay_state_due_, std::nullopt);
  } else if (devices_due_) {
    devices_due_ = false;
    *frame.mutable_devices() = *devices_;
  } else if (!pods_due_.empty()) {
    const std::string uid = pods_due_.begin()->first;
    pods_due_.erase(pods_due_.begin());
    *frame.mutable_pod() = pods_.at(uid);
  } else if (std::optional<v1::NodeMeasurement> measurement = measurement_.Take()) {
    *frame.mutable_measurement() = *std::move(measurement);
  } else if (beat_due_) {
    beat_due_ = false;
    frame.mutable_beat();
    StartBeat();
  } else if (relay_ != nullptr && !hold_timer_.pending()) {
    return relay_->members().Take(*frame.mutable_relayed());
  } else {
    return false;
  }
  return true;
}

void ControllerLink::SendNext() {
  if (!attached_ || way_.writing || way_.broken || way_.stream == nullptr) {
    return;
  }
  if (relay_ != nullptr && relay_->members().urgency() == RelayMembers::Urgency::kNow) {
    hold_timer_.Cancel();
  }
  v1::AgentFrame frame;
  if (TakeNext(frame)) {
    way_.writing = true;
    way_.stream->Write(frame);
  }
}

void ControllerLink::OnEnd(uint64_t number, const std::string& why, bool crowded) {
  Way* const way = Find(number);
  if (way == nullptr) {
    return;
  }
  const std::string relay = way->relay;
  Drop(*way);
  if (way == &next_) {
    join_timer_.Cancel();
    OnRelayFailed(relay, why);
    return;
  }
  // An offer is worth nothing without the stream on which it came.
  Drop(next_);
  join_timer_.Cancel();
  if (relay_ != nullptr) {
    relay_->members().EndAll(absl::UnavailableError("the relay has lost the controller"));
  }
  hold_timer_.Cancel();
  relay_state_due_.reset();
  Complain(why);
  if (!relay.empty()) {
    OnRelayFailed(relay, why);
    retry_timer_.Start(kReturnSpread * rng_.Uniform(), [this] { Connect(); });
    return;
  }
  Retry(crowded ? kCrowdedRetryMax : kRetryMax);
}

// The controller is told as soon as it can be.
void ControllerLink::OnRelayFailed(const std::string& relay, const std::string& why) {
  base::LogWarning("relay_lost", {{"relay", relay}, {"error", why}});
  relay_lost_due_.emplace();
  relay_lost_due_->set_relay(relay);
  relay_lost_due_->set_why(why);
  SendNext();
}

// The way is gone; a line in the log for each reason.
void ControllerLink::Complain(const std::string& why) {
  if (attached_ || complaint_ != why) {
    base::LogWarning("not_attached", {{"controller", options_.address}, {"error", why}});
  }
  complaint_ = why;
  attached_ = false;
  beat_timer_.Cancel();
}

void ControllerLink::Retry(absl::Duration longest) {
  const absl::Duration delay = std::min(kRetryMin * (1 << std::min(failures_, 6)), longest);
  ++failures_;
  retry_timer_.Start(delay * (0.5 + 0.5 * rng_.Uniform()), [this] { Connect(); });
}

}  // namespace asterism::agent
