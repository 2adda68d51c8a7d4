#include "controller/agent_edge.h"

#include <algorithm>
#include <deque>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "asterism/v1/agent.grpc.pb.h"
#include "base/strings.h"
#include "controller/call_credentials.h"
#include "controller/call_cut.h"
#include "controller/grpc_status.h"
#include "controller/placement_desk.h"
#include "fmt/format.h"

namespace asterism::controller {
namespace {

// Which node the pod of a ServiceAccount's token runs on (KEP-4193, since Kubernetes 1.30).
constexpr const char* kNodeOfToken = "authentication.kubernetes.io/node-name";
constexpr size_t kNodeNameMax = 253;
// Of an agent that does not read, from the end of its stream.
constexpr absl::Duration kEndPatience = absl::Seconds(1);
// A relay is told something for each of its members at once.
constexpr size_t kUnreadAnswersMax = 256;
// With relays: those below their threshold, and some.
constexpr size_t kStreamsWithRelays = 4096;
constexpr size_t kStreamsWithoutRelays = 16'384;

}  // namespace

// gRPC's side of a stream. Lives until gRPC is done with it and the core has forgotten it.
class AgentEdge::Stream final : public grpc::ServerBidiReactor<v1::AgentFrame, v1::ControllerFrame>,
                                public std::enable_shared_from_this<Stream> {
 public:
  Stream(AgentEdge& edge, grpc::CallbackServerContext& context,
         std::shared_ptr<const std::atomic<bool>> retired)
      : edge_(edge),
        credentials(CredentialsOf(context)),
        retired_(std::move(retired)),
        cut_(context, edge.timers_) {}

  void Begin() { self_ = shared_from_this(); }
  // Takes room of those who wait; false: there is none.
  bool Wait() {
    waiting_ = edge_.waiting_.fetch_add(1) < edge_.options_.streams_waiting_max;
    if (!waiting_) {
      edge_.waiting_.fetch_sub(1);
    }
    return waiting_;
  }
  // Attached, or gone.
  void WaitNoMore() {
    if (waiting_.exchange(false)) {
      edge_.waiting_.fetch_sub(1);
    }
  }
  void ReadNext() {
    absl::MutexLock lock(&mutex_);
    if (!ended_) {
      StartRead(&frame_);
    }
  }
  void Tell(v1::ControllerFrame frame) {
    {
      absl::MutexLock lock(&mutex_);
      if (ended_) {
        return;
      }
      if (unread_.size() < kUnreadAnswersMax) {
        unread_.push_back(std::move(frame));
        if (unread_.size() == 1) {
          StartWrite(&unread_.front());
        }
        return;
      }
    }
    End(absl::ResourceExhaustedError("the agent does not read what it is told"));
  }
  void End(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    if (!std::exchange(ended_, true)) {
      cut_.After(kEndPatience);
      Finish(ToGrpc(status));
    }
  }
  bool retired() const { return *retired_; }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) {
      End(absl::OkStatus());
      return;
    }
    edge_.dependencies_.core.Post([&edge = edge_, self = shared_from_this(),
                                   frame = std::move(frame_)] { edge.OnFrame(self, frame); });
  }
  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    unread_.pop_front();
    if (!ok) {
      unread_.clear();
    } else if (!ended_ && !unread_.empty()) {
      StartWrite(&unread_.front());
    }
  }
  void OnCancel() override { End(absl::CancelledError("the agent has gone")); }
  void OnDone() override {
    cut_.Over();
    WaitNoMore();
    edge_.dependencies_.core.Post(
        [&edge = edge_, self = std::exchange(self_, nullptr)] { edge.OnGone(self); });
  }

  AgentEdge& edge_;

 public:
  // On the core.
  const Credentials credentials;
  uint64_t number = 0;  // 0: not attached
  std::atomic<bool> greeted = false;

 private:
  const std::shared_ptr<const std::atomic<bool>> retired_;
  std::shared_ptr<Stream> self_;
  std::atomic<bool> waiting_ = false;
  CallCut cut_;
  absl::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  v1::AgentFrame frame_;
  std::deque<v1::ControllerFrame> unread_ ABSL_GUARDED_BY(mutex_);  // the first is being written
};

class AgentEdge::Service final : public v1::Agents::CallbackService {
 public:
  Service(AgentEdge& edge, std::shared_ptr<const std::atomic<bool>> retired)
      : edge_(edge), retired_(std::move(retired)) {}

  grpc::ServerBidiReactor<v1::AgentFrame, v1::ControllerFrame>* Attach(
      grpc::CallbackServerContext* context) override {
    auto stream = std::make_shared<Stream>(edge_, *context, retired_);
    stream->Begin();
    if (const absl::Status status = LetIn(*stream); !status.ok()) {
      stream->End(status);
    } else {
      stream->ReadNext();
      edge_.timers_.PostAfter(edge_.options_.hello_limit, [weak = std::weak_ptr<Stream>(stream)] {
        if (const auto late = weak.lock(); late != nullptr && !late->greeted) {
          late->End(absl::DeadlineExceededError("no hello came"));
        }
      });
    }
    return stream.get();
  }

 private:
  // What can be said before anything is read.
  absl::Status LetIn(Stream& stream) const {
    if (!edge_.dependencies_.plane.leading()) {
      return NotLeadingError(edge_.dependencies_.plane);
    }
    if (edge_.options_.certificate_needed && stream.credentials.certificate_name != kAgentName) {
      return absl::UnauthenticatedError(fmt::format(
          "the agent shows no certificate of {}: mount the Secret asterism-agent-tls", kAgentName));
    }
    return stream.Wait() ? absl::OkStatus()
                         : absl::ResourceExhaustedError(
                               "too many agents attach at this moment: call again later");
  }

  AgentEdge& edge_;
  const std::shared_ptr<const std::atomic<bool>> retired_;
};

size_t StreamsMax(const RelayConfiguration& relays) {
  return relays.mode == RelayMode::kOff
             ? kStreamsWithoutRelays
             : std::max(kStreamsWithRelays, static_cast<size_t>(relays.above_nodes) * 5 / 4);
}

AgentEdge::AgentEdge(Dependencies dependencies, AgentEdgeOptions options)
    : dependencies_(dependencies),
      options_(std::move(options)),
      identity_(dependencies_.clock, dependencies_.client, options_.identity),
      metrics_(dependencies_.registry),
      relays_(
          {.clock = dependencies_.clock,
           .core = dependencies_.core,
           .agents = dependencies_.agents,
           .metrics = metrics_,
           .cluster = [this] { return dependencies_.plane.topology_state()->snapshot->cluster; },
           .next_number = [this] { return ++last_number_; },
           .welcome = [this] { return Welcome(); },
           .tell = [this](uint64_t stream,
                          v1::ControllerFrame frame) { Tell(stream, std::move(frame)); },
           .on_frame = [this](uint64_t number,
                              const v1::AgentFrame& frame) { return OnFrameOf(number, frame); }},
          options_.relays),
      look_timer_(dependencies_.core) {}

AgentEdge::~AgentEdge() = default;

std::unique_ptr<grpc::Service> AgentEdge::MakeService(
    std::shared_ptr<const std::atomic<bool>> retired) {
  return std::make_unique<Service>(*this, std::move(retired));
}

void AgentEdge::OnFrame(const std::shared_ptr<Stream>& stream, const v1::AgentFrame& frame) {
  if (!stream->greeted) {
    if (!frame.has_hello()) {
      stream->End(absl::InvalidArgumentError("the first frame is to be a hello"));
      return;
    }
    stream->greeted = true;
    OnHello(stream, frame.hello());
    return;
  }
  if (const absl::Status status = OnOwnFrame(stream->number, frame); !status.ok()) {
    stream->End(status);
    return;
  }
  stream->ReadNext();
}

// Of the agent whose stream it is; what comes through a relay goes no further than OnFrameOf.
absl::Status AgentEdge::OnOwnFrame(uint64_t stream, const v1::AgentFrame& frame) {
  if (frame.has_hello()) {
    return absl::InvalidArgumentError("a second hello");
  }
  if (frame.has_relay_state()) {
    return relays_.OnState(stream, frame.relay_state());
  }
  if (frame.has_relay_lost()) {
    relays_.OnLost(stream, frame.relay_lost());
    return absl::OkStatus();
  }
  if (frame.has_relayed()) {
    dependencies_.agents.Hear(stream);
    return relays_.OnRelayed(stream, frame.relayed());
  }
  return OnFrameOf(stream, frame);
}

absl::Status AgentEdge::OnFrameOf(uint64_t number, const v1::AgentFrame& frame) {
  dependencies_.agents.Hear(number);
  if (frame.has_devices()) {
    return dependencies_.agents.OnDevices(number, frame.devices());
  }
  if (frame.has_pod()) {
    return dependencies_.agents.OnPod(number, frame.pod());
  }
  if (frame.has_measurement()) {
    if (dependencies_.agents.OnMeasurement(number, frame.measurement())) {
      v1::ControllerFrame answer;
      answer.mutable_measurement_wanted();
      Tell(number, std::move(answer));
    }
    return absl::OkStatus();
  }
  // Frames of a kind that this version does not know are beats.
  dependencies_.agents.OnBeat(number);
  return absl::OkStatus();
}

void AgentEdge::Tell(uint64_t number, v1::ControllerFrame frame) {
  if (const auto own = streams_.find(number); own != streams_.end()) {
    own->second->Tell(std::move(frame));
  } else {
    relays_.Tell(number, frame);
  }
}

v1::ControllerFrame AgentEdge::Welcome() const {
  v1::ControllerFrame frame;
  frame.mutable_welcome()->set_controller(dependencies_.plane.leader());
  frame.mutable_welcome()->set_controller_version(ASTERISM_VERSION);
  return frame;
}

void AgentEdge::OnHello(const std::shared_ptr<Stream>& stream, const v1::AgentHello& hello) {
  if (hello.node().empty() || hello.node().size() > kNodeNameMax ||
      hello.boot_id().size() > kNodeNameMax || hello.agent_version().size() > kNodeNameMax) {
    stream->End(absl::InvalidArgumentError("hello: node is missing, or a name is too long"));
    return;
  }
  identity_.Identify({.certificate_name = "", .bearer_token = stream->credentials.bearer_token},
                     alive_.Wrap([this, stream, hello](
                                     const absl::StatusOr<std::shared_ptr<const Caller>>& caller) {
                       Admit(stream, hello, caller);
                     }));
}

absl::Status AgentEdge::CheckNode(const std::string& node, const Caller& caller) const {
  if (caller.user != options_.user) {
    return absl::PermissionDeniedError(fmt::format(
        "{} is not the agents' ServiceAccount, {}: see agents.namespace and agents.serviceAccount",
        caller.user, options_.user));
  }
  const auto bound = caller.extra.find(kNodeOfToken);
  if (bound == caller.extra.end() || bound->second.size() != 1) {
    return absl::PermissionDeniedError(
        "the token is bound to no node: use the one that is mounted into the agent's pod, on "
        "Kubernetes 1.30 or later");
  }
  if (bound->second.front() != node) {
    return absl::PermissionDeniedError(fmt::format(
        "the agent speaks for node {}, and its pod runs on {}", node, bound->second.front()));
  }
  return absl::OkStatus();
}

void AgentEdge::Admit(const std::shared_ptr<Stream>& stream, const v1::AgentHello& hello,
                      const absl::StatusOr<std::shared_ptr<const Caller>>& caller) {
  absl::Status status = caller.status();
  if (status.ok()) {
    status = CheckNode(hello.node(), **caller);
  }
  if (status.ok() && streams_.size() >= options_.streams_max) {
    status = absl::ResourceExhaustedError("too many agents are attached to this process");
  }
  if (!status.ok()) {
    stream->End(status);
    return;
  }
  stream->WaitNoMore();
  stream->number = ++last_number_;
  streams_[stream->number] = stream;
  metrics_.streams.Set(static_cast<double>(streams_.size()));
  dependencies_.agents.Attach(stream->number, hello);
  stream->Tell(Welcome());
  relays_.OnAttached(stream->number, hello);
  stream->ReadNext();
  if (!look_timer_.pending()) {
    Look();
  }
}

void AgentEdge::OnGone(const std::shared_ptr<Stream>& stream) {
  if (stream->number != 0) {
    streams_.erase(stream->number);
    metrics_.streams.Set(static_cast<double>(streams_.size()));
    dependencies_.agents.Detach(stream->number);
    relays_.OnGone(stream->number);
  }
}

// Ends what may not go on; only while there are streams.
void AgentEdge::Look() {
  const bool leading = dependencies_.plane.leading();
  for (const auto& [number, stream] : streams_) {
    if (!leading) {
      stream->End(absl::UnavailableError("this process leads no more"));
    } else if (stream->retired()) {
      stream->End(absl::UnavailableError("the certificate was renewed: connect again"));
    } else if (!dependencies_.agents.IsAttached(number)) {
      stream->End(absl::AbortedError("another agent of the node has attached"));
    }
  }
  if (!streams_.empty()) {
    look_timer_.Start(options_.look_period, [this] { Look(); });
  }
}

}  // namespace asterism::controller
