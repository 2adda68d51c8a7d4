// File: controller/unary_call.h
//
// One gRPC call with one answer, between gRPC's threads and ours: it ends once, whoever is first
// (the answer, the deadline, the caller who hangs up), and what comes later is dropped. A caller
// who does not take the answer is cut off after kAnswerPatience.
//
//   auto* call = new UnaryCall<v1::PlaceResponse>(context, admission, timers, "Place", response);
//   if (call->Enter(bytes)) {
//     std::shared_ptr<UnaryCall<v1::PlaceResponse>::Handle> handle = call->handle();
//     handle->Finish(status_or_response);   // from any thread, any number of times
//   }
//   return call;                            // to gRPC, which ends its life
//
// For the sources that see gRPC; include it nowhere else.
//
// Thread-safety: any thread. Cost: a few allocations and two timers a call.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/executor.h"
#include "controller/call_admission.h"
#include "controller/call_cut.h"
#include "controller/grpc_status.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"

namespace asterism::controller {

inline constexpr absl::Duration kAnswerPatience = absl::Seconds(10);

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

   private:
    absl::Mutex mutex_;
    UnaryCall* call_ ABSL_GUARDED_BY(mutex_);
  };

  // `response` belongs to gRPC and lives until the call has ended.
  UnaryCall(grpc::CallbackServerContext& context, CallAdmission& admission, base::Executor& timers,
            std::string_view method, grpc::ByteBuffer* response)
      : admission_(admission),
        timers_(timers),
        method_(method),
        response_(response),
        began_(admission.Now()),
        handle_(std::make_shared<Handle>(this)),
        cut_(context, timers) {}

  const std::shared_ptr<Handle>& handle() const { return handle_; }
  // Null: there is no room for a request of so many bytes, and the call has ended.
  std::shared_ptr<AdmittedCall> Enter(size_t bytes) {
    absl::StatusOr<std::shared_ptr<AdmittedCall>> admitted =
        admission_.Admit(CallKind::kUnary, bytes);
    if (!admitted.ok()) {
      handle_->Finish(admitted.status());
      return nullptr;
    }
    admitted_ = *std::move(admitted);
    return admitted_;
  }
  // For a caller who gave no deadline. Before anybody else knows the handle.
  void EndAfter(absl::Duration limit) {
    timer_ = timers_.PostAfter(limit, [handle = handle_, limit] {
      handle->Finish(absl::DeadlineExceededError("a call without a deadline gets " +
                                                 absl::FormatDuration(limit) +
                                                 ": state a longer one"));
    });
  }

 private:
  void End(absl::StatusOr<Response> answer) {
    grpc::Status status = ToGrpc(answer.status());
    if (status.ok()) {
      bool own = false;
      status = grpc::SerializationTraits<Response>::Serialize(*answer, response_, &own);
    }
    if (admitted_ != nullptr) {
      admitted_->Drop();
    }
    if (timer_ != 0) {
      timers_.Cancel(timer_);
    }
    admission_.Count(method_, static_cast<absl::StatusCode>(status.error_code()), began_);
    cut_.After(kAnswerPatience);
    this->Finish(status);  // and it may be gone
  }

  void OnCancel() override {
    handle_->Finish(absl::CancelledError("the caller has gone, or its deadline is over"));
  }
  void OnDone() override {
    cut_.Over();
    delete this;
  }

  CallAdmission& admission_;
  base::Executor& timers_;
  const std::string_view method_;
  grpc::ByteBuffer* const response_;
  const base::SteadyTime began_;
  const std::shared_ptr<Handle> handle_;
  std::shared_ptr<AdmittedCall> admitted_;  // null: it was not let in
  CallCut cut_;
  std::atomic<base::TimerId> timer_{0};
};

}  // namespace asterism::controller
