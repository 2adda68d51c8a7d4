#include "controller/placement_service.h"

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "asterism/v1/placement.grpc.pb.h"
#include "controller/call_credentials.h"
#include "controller/unary_call.h"

namespace asterism::controller {
namespace {

// A stream of changes: gRPC's side of a QueueStream. Ends its own life.
class QueueReactor final : public grpc::ServerWriteReactor<v1::WatchQueueResponse>,
                           public QueueWriter {
 public:
  QueueReactor(CallGate& gate, const v1::WatchQueueRequest& request, Credentials credentials,
               std::shared_ptr<const std::atomic<bool>> retired)
      : gate_(gate),
        began_(gate.Now()),
        stream_(std::make_shared<QueueStream>(
            QueueFilter{.namespace_name = request.namespace_(), .queue = request.queue()},
            std::move(credentials), *this, std::move(retired))) {}

  const std::shared_ptr<QueueStream>& stream() const { return stream_; }
  bool Enter() {
    const absl::Status entered = gate_.Enter(CallKind::kStream);
    entered_ = entered.ok();
    if (!entered_) {
      stream_->End(entered);
    }
    return entered_;
  }

 private:
  void Write(std::unique_ptr<v1::WatchQueueResponse> message) override {
    message_ = std::move(message);
    StartWrite(message_.get());
  }
  void Finish(const absl::Status& status) override {
    gate_.Count("WatchQueue", status.code(), began_);
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
    if (entered_) {
      gate_.Leave(CallKind::kStream);
    }
    delete this;
  }

  CallGate& gate_;
  const base::SteadyTime began_;
  const std::shared_ptr<QueueStream> stream_;
  bool entered_ = false;
  std::unique_ptr<v1::WatchQueueResponse> message_;  // that is being written
};

class PlacementService final : public v1::Placement::CallbackService {
 public:
  PlacementService(const PlacementServiceParts& parts,
                   std::shared_ptr<const std::atomic<bool>> retired)
      : parts_(parts), retired_(std::move(retired)) {}

  grpc::ServerUnaryReactor* Place(grpc::CallbackServerContext* context,
                                  const v1::PlaceRequest* request,
                                  v1::PlaceResponse* response) override {
    return Start(*context, "Place", *request, response, &PlacementDesk::Place);
  }
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context,
                                    const v1::ExplainRequest* request,
                                    v1::ExplainResponse* response) override {
    return Start(*context, "Explain", *request, response, &PlacementDesk::Explain);
  }
  grpc::ServerUnaryReactor* WhatIf(grpc::CallbackServerContext* context,
                                   const v1::WhatIfRequest* request,
                                   v1::WhatIfResponse* response) override {
    return Start(*context, "WhatIf", *request, response, &PlacementDesk::WhatIf);
  }
  grpc::ServerUnaryReactor* GetLedger(grpc::CallbackServerContext* context,
                                      const v1::GetLedgerRequest* request,
                                      v1::GetLedgerResponse* response) override {
    return Start(*context, "GetLedger", *request, response, &PlacementDesk::GetLedger);
  }
  grpc::ServerWriteReactor<v1::WatchQueueResponse>* WatchQueue(
      grpc::CallbackServerContext* context, const v1::WatchQueueRequest* request) override {
    auto* reactor = new QueueReactor(parts_.gate, *request, CredentialsOf(*context), retired_);
    const std::shared_ptr<QueueStream> stream = reactor->stream();
    if (!reactor->Enter()) {
      return reactor;
    }
    if (!parts_.plane.leading()) {
      stream->End(PointToLeader(*context));
      return reactor;
    }
    parts_.core.Post([&watch = parts_.watch, stream] { watch.Add(stream); });
    return reactor;
  }

 private:
  absl::Status PointToLeader(grpc::CallbackServerContext& context) const {
    if (const std::string leader = parts_.plane.leader(); !leader.empty()) {
      context.AddTrailingMetadata(kLeaderMetadata, leader);
    }
    return NotLeadingError(parts_.plane);
  }

  template <typename Request, typename Response>
  using DeskMethod = void (PlacementDesk::*)(const PlacementDesk::SharedCaller&,
                                             const std::shared_ptr<const Request>&,
                                             PlacementDesk::Done<Response>);

  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Start(grpc::CallbackServerContext& context, std::string_view method,
                                  const Request& request, Response* response,
                                  DeskMethod<Request, Response> answer) {
    auto* call = new UnaryCall<Response>(parts_.gate, parts_.worker, method, response);
    const std::shared_ptr<typename UnaryCall<Response>::Handle> handle = call->handle();
    if (!call->Enter()) {
      return call;
    }
    if (!parts_.plane.leading()) {
      handle->Finish(PointToLeader(context));
      return call;
    }
    if (context.deadline() == std::chrono::system_clock::time_point::max()) {
      call->EndAfter(parts_.default_deadline);
    }
    // gRPC's own request goes with the call, which may end while somebody still reads.
    parts_.core.Post([parts = parts_, handle, credentials = CredentialsOf(context),
                      copy = std::make_shared<const Request>(request), answer] {
      if (!handle->live()) {
        return;
      }
      parts.identity.Identify(
          credentials, [&desk = parts.desk, handle, copy,
                        answer](const absl::StatusOr<std::shared_ptr<const Caller>>& caller) {
            if (!caller.ok()) {
              handle->Finish(caller.status());
            } else if (handle->live()) {
              (desk.*answer)(*caller, copy, [handle](absl::StatusOr<Response> result) {
                handle->Finish(std::move(result));
              });
            }
          });
    });
    return call;
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
