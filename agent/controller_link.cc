#include "agent/controller_link.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "asterism/v1/agent.grpc.pb.h"
#include "base/log.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "grpcpp/channel.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"

namespace asterism::agent {
namespace {

constexpr absl::Duration kBeatPeriod = absl::Seconds(10);
constexpr absl::Duration kWelcomeLimit = absl::Seconds(15);
constexpr absl::Duration kRetryMin = absl::Seconds(1);
constexpr absl::Duration kRetryMax = absl::Seconds(10);

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

grpc::ChannelArguments ArgumentsOf(const ControllerLinkOptions& options) {
  grpc::ChannelArguments arguments;
  // A dead controller's node answers nothing, not even a reset.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 15'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  // Each attempt is to see the certificates of the moment.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (!options.server_name.empty()) {
    arguments.SetSslTargetNameOverride(options.server_name);
  }
  return arguments;
}

}  // namespace

// One attempt. Lives until gRPC is done with it; tells the link through its executor, with the
// number of the attempt, so that a late word of an old one is known as such.
class ControllerLink::Stream final
    : public grpc::ClientBidiReactor<v1::AgentFrame, v1::ControllerFrame>,
      public std::enable_shared_from_this<Stream> {
 public:
  struct Listener {
    base::Executor* executor;
    std::function<void(const v1::AgentWelcome&)> on_welcome;
    std::function<void()> on_measurement_wanted;
    std::function<void()> on_written;
    std::function<void()> on_broken;  // nothing more comes; on_end follows after Abandon
    std::function<void(const std::string&)> on_end;
  };

  Stream(Listener listener, std::shared_ptr<grpc::Channel> channel, const std::string& token)
      : listener_(std::move(listener)), stub_(v1::Agents::NewStub(std::move(channel))) {
    if (!token.empty()) {
      context_.AddMetadata("authorization", "Bearer " + token);
    }
  }

  void Begin() {
    self_ = shared_from_this();
    stub_->async()->Attach(&context_, this);
    AddHold();
    StartRead(&received_);
    StartCall();
  }
  void Write(v1::AgentFrame frame) {
    sent_ = std::move(frame);
    StartWrite(&sent_);
  }
  // Nothing is told after it: gRPC's threads may have words of this stream when its owner, and the
  // executor, are gone.
  void Silence() {
    const absl::MutexLock lock(&mutex_);
    silent_ = true;
  }
  // Nothing is written after it.
  void Abandon() {
    if (!std::exchange(abandoned_, true)) {
      context_.TryCancel();
      RemoveHold();
    }
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) {
      Post([tell = listener_.on_broken] { tell(); });
      return;
    }
    if (received_.has_welcome()) {
      Post([tell = listener_.on_welcome, welcome = received_.welcome()] { tell(welcome); });
    } else if (received_.has_measurement_wanted()) {
      Post([tell = listener_.on_measurement_wanted] { tell(); });
    }
    StartRead(&received_);
  }
  void OnWriteDone(bool ok) override {
    if (ok) {
      Post([tell = listener_.on_written] { tell(); });
    }
  }
  void OnDone(const grpc::Status& status) override {
    Post([tell = listener_.on_end,
          why = status.ok() ? std::string("the controller has ended the stream")
                            : fmt::format("{} (code {})", status.error_message(),
                                          static_cast<int>(status.error_code()))] { tell(why); });
    self_.reset();
  }
  void Post(base::Work work) {
    const absl::MutexLock lock(&mutex_);
    if (!silent_) {
      listener_.executor->Post(std::move(work));
    }
  }

  const Listener listener_;
  std::unique_ptr<v1::Agents::Stub> stub_;
  grpc::ClientContext context_;
  v1::AgentFrame sent_;
  v1::ControllerFrame received_;
  std::shared_ptr<Stream> self_;
  bool abandoned_ = false;
  absl::Mutex mutex_;
  bool silent_ ABSL_GUARDED_BY(mutex_) = false;
};

ControllerLink::ControllerLink(base::Executor& executor, base::Rng rng,
                               ControllerLinkOptions options)
    : executor_(executor),
      rng_(std::move(rng)),
      options_(std::move(options)),
      measurement_(options_.first_generation),
      retry_timer_(executor),
      beat_timer_(executor) {}

ControllerLink::~ControllerLink() {
  if (stream_ != nullptr) {
    stream_->Silence();
    stream_->Abandon();
  }
  // As in Open: the process ends without the threads ending before.
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
    Retry(std::string(opened.message()));
  }
}

absl::Status ControllerLink::Open() {
  ASSIGN_OR_RETURN(const auto credentials, CredentialsOf(options_));
  std::string token;
  if (!options_.token_path.empty()) {
    ASSIGN_OR_RETURN(token, base::ReadSmallFile(options_.token_path));
    token.erase(token.find_last_not_of(" \r\n") + 1);
  }
  auto channel = grpc::CreateCustomChannel(options_.address, credentials, ArgumentsOf(options_));
  const uint64_t number = ++stream_number_;
  attached_ = false;
  broken_ = false;
  // The number guards against a late word of an earlier stream; the owner stops the executor
  // before it ends the link.
  stream_ = std::make_shared<Stream>(
      Stream::Listener{
          .executor = &executor_,
          .on_welcome = [this,
                         number](const v1::AgentWelcome& welcome) { OnWelcome(number, welcome); },
          .on_measurement_wanted = [this, number] { OnMeasurementWanted(number); },
          .on_written = [this, number] { OnWritten(number); },
          .on_broken = [this, number] { OnBroken(number); },
          .on_end = [this, number](const std::string& why) { OnEnd(number, why); }},
      channel, token);
  stream_->Begin();
  // gRPC 1.51 ends its callback threads with the last channel that uses them, and while they end
  // one of them may touch a queue that is already gone. So the last channel stays until this one
  // uses them too.
  channel_ = std::move(channel);
  v1::AgentFrame hello;
  *hello.mutable_hello() = options_.hello;
  writing_ = true;
  stream_->Write(std::move(hello));
  // The same timer as for the beat: one of the two is due.
  beat_timer_.Start(kWelcomeLimit,
                    [this, number] { OnEnd(number, "the controller does not answer"); });
  return absl::OkStatus();
}

void ControllerLink::OnWelcome(uint64_t number, const v1::AgentWelcome& welcome) {
  if (number != stream_number_ || stream_ == nullptr) {
    return;
  }
  base::LogInfo("attached", {{"controller", welcome.controller()},
                             {"version", welcome.controller_version()},
                             {"address", options_.address}});
  attached_ = true;
  failures_ = 0;
  complaint_.clear();
  devices_due_ = devices_.has_value();
  for (const auto& [uid, report] : pods_) {
    pods_due_[uid] = true;
  }
  measurement_.WantFull();
  beat_due_ = false;
  beat_timer_.Start(kBeatPeriod, [this] {
    beat_due_ = true;
    SendNext();
  });
  SendNext();
}

void ControllerLink::OnMeasurementWanted(uint64_t number) {
  if (number == stream_number_) {
    measurement_.WantFull();
    SendNext();
  }
}

void ControllerLink::OnWritten(uint64_t number) {
  if (number == stream_number_) {
    writing_ = false;
    SendNext();
  }
}

void ControllerLink::SendNext() {
  if (!attached_ || writing_ || broken_ || stream_ == nullptr) {
    return;
  }
  v1::AgentFrame frame;
  if (devices_due_) {
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
    beat_timer_.Start(kBeatPeriod, [this] {
      beat_due_ = true;
      SendNext();
    });
  } else {
    return;
  }
  writing_ = true;
  stream_->Write(std::move(frame));
}

void ControllerLink::OnBroken(uint64_t number) {
  if (number == stream_number_ && stream_ != nullptr) {
    broken_ = true;
    stream_->Abandon();
  }
}

void ControllerLink::OnEnd(uint64_t number, const std::string& why) {
  if (number != stream_number_ || stream_ == nullptr) {
    return;
  }
  stream_->Silence();
  stream_->Abandon();
  stream_.reset();
  ++stream_number_;
  Retry(why);
}

void ControllerLink::Retry(const std::string& why) {
  if (attached_ || complaint_ != why) {
    base::LogWarning("not_attached", {{"controller", options_.address}, {"error", why}});
  }
  complaint_ = why;
  attached_ = false;
  writing_ = false;
  beat_timer_.Cancel();
  const absl::Duration longest = std::min(kRetryMin * (1 << std::min(failures_, 5)), kRetryMax);
  ++failures_;
  retry_timer_.Start(longest * (0.5 + 0.5 * rng_.Uniform()), [this] { Connect(); });
}

}  // namespace asterism::agent
