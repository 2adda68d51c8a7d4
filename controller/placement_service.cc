#include "controller/placement_service.h"

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "asterism/v1/placement.grpc.pb.h"
#include "base/status_macros.h"
#include "controller/call_credentials.h"
#include "controller/object_names.h"
#include "controller/unary_call.h"
#include "fmt/format.h"

namespace asterism::controller {
namespace {

// Of requests that hold some names. Those with a job may be as large as a message.
constexpr size_t kSmallRequestBytesMax = 16 << 10;
// A reader who has not read what was written before gets the end of its stream no later.
constexpr absl::Duration kStreamEndPatience = absl::Seconds(1);

// Handlers get bytes, and read them here: gRPC would say nothing about bytes that are no message.
template <typename Request>
absl::Status ReadRequest(const grpc::ByteBuffer& bytes, Request& request) {
  grpc::ByteBuffer shared(bytes);
  if (grpc::SerializationTraits<Request>::Deserialize(&shared, &request).ok()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("the request is no {}: send that message of proto/asterism/v1/placement.proto",
                  Request::descriptor()->full_name()));
}

template <typename Request>
absl::Status ReadSmallRequest(const grpc::ByteBuffer& bytes, Request& request) {
  if (bytes.Length() > kSmallRequestBytesMax) {
    return absl::InvalidArgumentError(fmt::format("the request has {} bytes: send at most {}",
                                                  bytes.Length(), kSmallRequestBytesMax));
  }
  return ReadRequest(bytes, request);
}

// A stream of changes: gRPC's side of a QueueStream. Ends its own life.
class QueueReactor final : public grpc::ServerWriteReactor<grpc::ByteBuffer>, public QueueWriter {
 public:
  QueueReactor(grpc::CallbackServerContext& context, const PlacementServiceParts& parts,
               QueueFilter filter, std::shared_ptr<const std::atomic<bool>> retired)
      : admission_(parts.admission),
        began_(admission_.Now()),
        cut_(context, parts.timers),
        stream_(std::make_shared<QueueStream>(std::move(filter), CredentialsOf(context), *this,
                                              std::move(retired))) {}

  const std::shared_ptr<QueueStream>& stream() const { return stream_; }
  // Null: there is no room, and the stream has ended.
  std::shared_ptr<AdmittedCall> Enter(size_t bytes) {
    absl::StatusOr<std::shared_ptr<AdmittedCall>> admitted =
        admission_.Admit(CallKind::kStream, bytes);
    if (!admitted.ok()) {
      stream_->End(admitted.status());
      return nullptr;
    }
    admitted_ = *std::move(admitted);
    return admitted_;
  }

 private:
  void Write(std::unique_ptr<v1::WatchQueueResponse> message) override {
    bytes_.Clear();  // of the message before
    bool own = false;
    // Fails for no message of ours.
    static_cast<void>(
        grpc::SerializationTraits<v1::WatchQueueResponse>::Serialize(*message, &bytes_, &own));
    StartWrite(&bytes_);
  }
  void Finish(const absl::Status& status) override {
    admission_.Count("WatchQueue", status.code(), began_);
    cut_.After(kStreamEndPatience);
    ServerWriteReactor::Finish(ToGrpc(status));
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      stream_->OnWritten();
    } else {
      OnCancel();
    }
  }
  void OnCancel() override {
    stream_->End(absl::CancelledError("the caller has gone, or its deadline is over"));
  }
  void OnDone() override {
    cut_.Over();
    delete this;
  }

  CallAdmission& admission_;
  const base::SteadyTime began_;
  CallCut cut_;
  const std::shared_ptr<QueueStream> stream_;
  std::shared_ptr<AdmittedCall> admitted_;  // null: it was not let in
  grpc::ByteBuffer bytes_;                  // that are being written
};

absl::StatusOr<QueueFilter> ReadFilter(const grpc::ByteBuffer& bytes) {
  v1::WatchQueueRequest request;
  RETURN_IF_ERROR(ReadSmallRequest(bytes, request));
  if (!request.namespace_().empty()) {
    RETURN_IF_ERROR(CheckNamespaceName("namespace", request.namespace_()));
  }
  if (!request.queue().empty()) {
    RETURN_IF_ERROR(CheckObjectName("queue", request.queue()));
  }
  return QueueFilter{.namespace_name = request.namespace_(), .queue = request.queue()};
}

using RawService =
    v1::Placement::WithRawCallbackMethod_Place<v1::Placement::WithRawCallbackMethod_Explain<
        v1::Placement::WithRawCallbackMethod_WhatIf<v1::Placement::WithRawCallbackMethod_GetLedger<
            v1::Placement::WithRawCallbackMethod_WatchQueue<v1::Placement::Service>>>>>;

class PlacementService final : public RawService {
 public:
  PlacementService(const PlacementServiceParts& parts,
                   std::shared_ptr<const std::atomic<bool>> retired)
      : parts_(parts), retired_(std::move(retired)) {}

  grpc::ServerUnaryReactor* Place(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override {
    return StartLarge(*context, "Place", *request, response, &PlacementDesk::Place);
  }
  grpc::ServerUnaryReactor* WhatIf(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override {
    return StartLarge(*context, "WhatIf", *request, response, &PlacementDesk::WhatIf);
  }
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override {
    return StartSmall(*context, "Explain", *request, response, &PlacementDesk::Explain);
  }
  grpc::ServerUnaryReactor* GetLedger(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override {
    return StartSmall(*context, "GetLedger", *request, response, &PlacementDesk::GetLedger);
  }
  grpc::ServerWriteReactor<grpc::ByteBuffer>* WatchQueue(grpc::CallbackServerContext* context,
                                                         const grpc::ByteBuffer* request) override {
    const absl::StatusOr<QueueFilter> filter = ReadFilter(*request);
    auto* reactor =
        new QueueReactor(*context, parts_, filter.ok() ? *filter : QueueFilter(), retired_);
    const std::shared_ptr<QueueStream> stream = reactor->stream();
    const std::shared_ptr<AdmittedCall> call = reactor->Enter(request->Length());
    if (call == nullptr) {
      return reactor;
    }
    if (!filter.ok()) {
      stream->End(filter.status());
    } else if (!parts_.plane.leading()) {
      stream->End(PointToLeader(*context));
    } else {
      parts_.core.Post([&watch = parts_.watch, stream, call] { watch.Add(stream, call); });
    }
    return reactor;
  }

 private:
  using SharedCall = PlacementDesk::SharedCall;
  template <typename Request, typename Response>
  using DeskMethod = void (PlacementDesk::*)(const SharedCall&, std::shared_ptr<const Request>,
                                             PlacementDesk::Done<Response>);
  template <typename Response>
  using SharedHandle = std::shared_ptr<typename UnaryCall<Response>::Handle>;

  absl::Status PointToLeader(grpc::CallbackServerContext& context) const {
    if (const std::string leader = parts_.plane.leader(); !leader.empty()) {
      context.AddTrailingMetadata(kLeaderMetadata, leader);
    }
    return NotLeadingError(parts_.plane);
  }

  // `identified` runs on the core, once the call has the room of its caller.
  template <typename Response>
  void Identify(const grpc::CallbackServerContext& context, const SharedCall& call,
                const SharedHandle<Response>& handle, absl::AnyInvocable<void()> identified) {
    parts_.core.Post([&identity = parts_.identity, call, handle,
                      credentials = CredentialsOf(context),
                      identified = std::move(identified)]() mutable {
      if (!call->wanted()) {
        return;
      }
      identity.Identify(
          credentials, [call, handle, identified = std::move(identified)](
                           const absl::StatusOr<std::shared_ptr<const Caller>>& caller) mutable {
            const absl::Status status = caller.ok() ? call->BelongTo(*caller) : caller.status();
            if (!status.ok()) {
              handle->Finish(status);
            } else if (call->wanted()) {
              identified();
            }
          });
    });
  }

  // Null where the call has ended already.
  template <typename Response>
  SharedCall Enter(grpc::CallbackServerContext& context, UnaryCall<Response>& unary, size_t bytes) {
    SharedCall call = unary.Enter(bytes);
    if (call == nullptr) {
      return nullptr;
    }
    if (!parts_.plane.leading()) {
      unary.handle()->Finish(PointToLeader(context));
      return nullptr;
    }
    if (context.deadline() == std::chrono::system_clock::time_point::max()) {
      unary.EndAfter(parts_.default_deadline);
    }
    return call;
  }

  // Reads at once; the desk is asked on the core.
  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* StartSmall(grpc::CallbackServerContext& context,
                                       std::string_view method, const grpc::ByteBuffer& bytes,
                                       grpc::ByteBuffer* response,
                                       DeskMethod<Request, Response> answer) {
    auto* unary =
        new UnaryCall<Response>(context, parts_.admission, parts_.timers, method, response);
    const SharedHandle<Response> handle = unary->handle();
    const SharedCall call = Enter(context, *unary, bytes.Length());
    if (call == nullptr) {
      return unary;
    }
    auto request = std::make_shared<Request>();
    if (const absl::Status status = ReadSmallRequest(bytes, *request); !status.ok()) {
      handle->Finish(status);
      return unary;
    }
    Identify<Response>(context, call, handle, [&desk = parts_.desk, call, handle, request, answer] {
      (desk.*answer)(call, request, [handle](absl::StatusOr<Response> result) {
        handle->Finish(std::move(result));
      });
    });
    return unary;
  }

  // Reads in the caller's turn, and asks the desk there.
  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* StartLarge(grpc::CallbackServerContext& context,
                                       std::string_view method, const grpc::ByteBuffer& bytes,
                                       grpc::ByteBuffer* response,
                                       DeskMethod<Request, Response> answer) {
    auto* unary =
        new UnaryCall<Response>(context, parts_.admission, parts_.timers, method, response);
    const SharedHandle<Response> handle = unary->handle();
    const SharedCall call = Enter(context, *unary, bytes.Length());
    if (call == nullptr) {
      return unary;
    }
    Identify<Response>(context, call, handle,
                       [&desk = parts_.desk, &turns = parts_.turns, call, handle, bytes, answer] {
                         turns.Post(call->caller()->key, [&desk, call, handle, bytes, answer] {
                           if (!call->wanted()) {
                             return;
                           }
                           auto request = std::make_shared<Request>();
                           if (const absl::Status status = ReadRequest(bytes, *request);
                               !status.ok()) {
                             handle->Finish(status);
                             return;
                           }
                           (desk.*answer)(call, request, [handle](absl::StatusOr<Response> result) {
                             handle->Finish(std::move(result));
                           });
                         });
                       });
    return unary;
  }

  const PlacementServiceParts parts_;
  const std::shared_ptr<const std::atomic<bool>> retired_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakePlacementService(
    const PlacementServiceParts& parts, std::shared_ptr<const std::atomic<bool>> retired) {
  return std::make_unique<PlacementService>(parts, std::move(retired));
}

}  // namespace asterism::controller
