// File: controller/unary_call.h
//
// One gRPC call with one answer, between gRPC's threads and ours: it ends once, whoever is first
// (the answer, the deadline, the caller who hangs up), and what comes later is dropped.
//
//   auto* call = new UnaryCall<v1::PlaceResponse>(gate, worker, "Place", response);
//   std::shared_ptr<UnaryCall<v1::PlaceResponse>::Handle> handle = call->handle();
//   handle->Finish(status_or_response);   // from any thread, any number of times
//   return call;                          // to gRPC, which ends its life
//
// For the sources that see gRPC; include it nowhere else.
//
// Thread-safety: any thread. Cost: two allocations and a timer a call.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/executor.h"
#include "base/strings.h"
#include "controller/call_gate.h"
#include "grpcpp/support/server_callback.h"
#include "grpcpp/support/status.h"

namespace asterism::controller {

inline grpc::Status ToGrpc(const absl::Status& status) {
  // The codes are the same numbers.
  return status.ok() ? grpc::Status::OK
                     : grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                                    std::string(base::ToStd(status.message())));
}

template <typename Response>
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  class Handle {
   public:
    explicit Handle(UnaryCall* call) : call_(call) {}

    void Finish(absl::StatusOr<Response> answer) {
      UnaryCall* call = nullptr;
      {
        absl::MutexLock lock(&mutex_);
        call = std::exchange(call_, nullptr);
      }
      if (call != nullptr) {  // and nobody else ends it
        call->End(std::move(answer));
      }
    }
    // False: it has ended, and work for it is in vain.
    bool live() const {
      absl::MutexLock lock(&mutex_);
      return call_ != nullptr;
    }

   private:
    mutable absl::Mutex mutex_;
    UnaryCall* call_ ABSL_GUARDED_BY(mutex_);
  };

  // `response` belongs to gRPC and lives until the call has ended.
  UnaryCall(CallGate& gate, base::Executor& worker, std::string_view method, Response* response)
      : gate_(gate),
        worker_(worker),
        method_(method),
        response_(response),
        began_(gate.Now()),
        handle_(std::make_shared<Handle>(this)) {}

  const std::shared_ptr<Handle>& handle() const { return handle_; }
  // False: too many are served, and the call has ended.
  bool Enter() {
    const absl::Status entered = gate_.Enter(CallKind::kUnary);
    entered_ = entered.ok();
    if (!entered_) {
      handle_->Finish(entered);
    }
    return entered_;
  }
  // For a caller who gave no deadline. Before anybody else knows the handle.
  void EndAfter(absl::Duration limit) {
    timer_ = worker_.PostAfter(limit, [handle = handle_, limit] {
      handle->Finish(absl::DeadlineExceededError("a call without a deadline gets " +
                                                 absl::FormatDuration(limit) +
                                                 ": state a longer one"));
    });
  }

 private:
  void End(absl::StatusOr<Response> answer) {
    const absl::Status status = answer.status();
    if (status.ok()) {
      response_->Swap(&*answer);
    }
    if (timer_ != 0) {
      worker_.Cancel(timer_);
    }
    gate_.Count(method_, status.code(), began_);
    this->Finish(ToGrpc(status));
  }

  void OnCancel() override {
    handle_->Finish(absl::CancelledError("the caller has gone, or its deadline is over"));
  }
  void OnDone() override {
    if (entered_) {
      gate_.Leave(CallKind::kUnary);
    }
    delete this;
  }

  CallGate& gate_;
  base::Executor& worker_;
  const std::string_view method_;
  Response* const response_;
  const base::SteadyTime began_;
  const std::shared_ptr<Handle> handle_;
  bool entered_ = false;
  std::atomic<base::TimerId> timer_{0};
};

}  // namespace asterism::controller
