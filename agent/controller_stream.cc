#include "agent/controller_stream.h"

#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "asterism/v1/agent.grpc.pb.h"
#include "asterism/v1/relay.grpc.pb.h"
#include "base/frame_seal.h"
#include "fmt/format.h"
#include "grpcpp/channel.h"

namespace asterism::agent {
namespace {

// What both ways have in common. Lives until gRPC is done with it.
template <typename Sent, typename Received>
class ReactorStream : public ControllerStream,
                      public grpc::ClientBidiReactor<Sent, Received>,
                      public std::enable_shared_from_this<ReactorStream<Sent, Received>> {
 public:
  void Begin() final {
    self_ = this->shared_from_this();
    Call();
    this->AddHold();
    this->StartRead(&received_);
    this->StartCall();
  }
  void Write(const v1::AgentFrame& frame) final {
    sent_ = Encode(frame);
    this->StartWrite(&sent_);
  }
  void Silence() final {
    const absl::MutexLock lock(&mutex_);
    silent_ = true;
  }
  void Abandon() final {
    if (!std::exchange(abandoned_, true)) {
      context_.TryCancel();
      this->RemoveHold();
    }
  }

 protected:
  explicit ReactorStream(Listener listener) : listener_(std::move(listener)) {}

  virtual void Call() = 0;
  virtual Sent Encode(const v1::AgentFrame& frame) = 0;
  // On gRPC's threads, one after another. Empty: it was not the controller who said it.
  virtual std::optional<v1::ControllerFrame> Decode(Received received) = 0;

  grpc::ClientContext context_;

 private:
  void OnReadDone(bool ok) final {
    std::optional<v1::ControllerFrame> frame;
    if (ok) {
      frame = Decode(std::move(received_));
    }
    if (!frame.has_value()) {
      Post([tell = listener_.on_broken] { tell(); });
      return;
    }
    Post([tell = listener_.on_frame, frame = *std::move(frame)] { tell(frame); });
    received_.Clear();
    this->StartRead(&received_);
  }
  void OnWriteDone(bool ok) final {
    if (ok) {
      Post([tell = listener_.on_written] { tell(); });
    }
  }
  void OnDone(const grpc::Status& status) final {
    Post([tell = listener_.on_end, crowded = status.error_code() == grpc::RESOURCE_EXHAUSTED,
          why = status.ok()
                    ? std::string("the other end has ended the stream")
                    : fmt::format("{} (code {})", status.error_message(),
                                  static_cast<int>(status.error_code()))] { tell(why, crowded); });
    self_.reset();
  }
  void Post(base::Work work) {
    const absl::MutexLock lock(&mutex_);
    if (!silent_) {
      listener_.executor->Post(std::move(work));
    }
  }

  const Listener listener_;
  Sent sent_;
  Received received_;
  std::shared_ptr<ReactorStream> self_;
  bool abandoned_ = false;
  absl::Mutex mutex_;
  bool silent_ ABSL_GUARDED_BY(mutex_) = false;
};

class DirectStream final : public ReactorStream<v1::AgentFrame, v1::ControllerFrame> {
 public:
  DirectStream(Listener listener, std::shared_ptr<grpc::Channel> channel, const std::string& token)
      : ReactorStream(std::move(listener)), stub_(v1::Agents::NewStub(std::move(channel))) {
    if (!token.empty()) {
      context_.AddMetadata("authorization", "Bearer " + token);
    }
  }

 private:
  void Call() override { stub_->async()->Attach(&context_, this); }
  v1::AgentFrame Encode(const v1::AgentFrame& frame) override { return frame; }
  std::optional<v1::ControllerFrame> Decode(v1::ControllerFrame received) override {
    return received;
  }

  std::unique_ptr<v1::Agents::Stub> stub_;
};

class RelayedStream final : public ReactorStream<v1::SealedFrame, v1::SealedFrame> {
 public:
  RelayedStream(Listener listener, std::shared_ptr<grpc::Channel> channel,
                const v1::RelayOffer& offer)
      : ReactorStream(std::move(listener)),
        stub_(v1::Relay::NewStub(std::move(channel))),
        session_(offer.session()),
        up_(offer.key(), offer.session(), base::SealDirection::kUp),
        down_(offer.key(), offer.session(), base::SealDirection::kDown) {}

 private:
  void Call() override { stub_->async()->Join(&context_, this); }
  v1::SealedFrame Encode(const v1::AgentFrame& frame) override {
    v1::SealedFrame sealed;
    sealed.set_session(session_);
    sealed.set_number(++sent_frames_);
    sealed.set_frame(frame.SerializeAsString());
    sealed.set_seal(up_.Of(sent_frames_, sealed.frame()));
    sealed.set_can_wait(frame.has_beat());
    return sealed;
  }
  std::optional<v1::ControllerFrame> Decode(v1::SealedFrame received) override {
    v1::ControllerFrame frame;
    if (received.number() != received_frames_ + 1 ||
        !down_.Proves(received.number(), received.frame(), received.seal()) ||
        !frame.ParseFromString(received.frame())) {
      return std::nullopt;
    }
    ++received_frames_;
    return frame;
  }

  std::unique_ptr<v1::Relay::Stub> stub_;
  const uint64_t session_;
  const base::FrameSeal up_;
  const base::FrameSeal down_;
  uint64_t sent_frames_ = 0;
  uint64_t received_frames_ = 0;
};

}  // namespace

std::shared_ptr<ControllerStream> ControllerStream::Direct(Listener listener,
                                                           std::shared_ptr<grpc::Channel> channel,
                                                           const std::string& token) {
  return std::make_shared<DirectStream>(std::move(listener), std::move(channel), token);
}

std::shared_ptr<ControllerStream> ControllerStream::Relayed(Listener listener,
                                                            std::shared_ptr<grpc::Channel> channel,
                                                            const v1::RelayOffer& offer) {
  return std::make_shared<RelayedStream>(std::move(listener), std::move(channel), offer);
}

}  // namespace asterism::agent
