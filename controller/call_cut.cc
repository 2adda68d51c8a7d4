#include "controller/call_cut.h"

#include <mutex>

#include "grpcpp/server_context.h"

namespace asterism::controller {

// Cancelling may run the reactor's OnDone at once, on the same thread; on another one OnDone has to
// wait until the cancelling no longer needs the context. Hence the recursive mutex.
class CallCut::Context {
 public:
  explicit Context(grpc::CallbackServerContext& context) : context_(&context) {}

  void Cancel() {
    const std::lock_guard lock(mutex_);
    if (context_ != nullptr) {
      context_->TryCancel();
    }
  }
  void Forget() {
    const std::lock_guard lock(mutex_);
    context_ = nullptr;
  }

 private:
  std::recursive_mutex mutex_;
  grpc::CallbackServerContext* context_;
};

CallCut::CallCut(grpc::CallbackServerContext& context, base::Executor& timers)
    : timers_(timers), context_(std::make_shared<Context>(context)) {}

CallCut::~CallCut() = default;

void CallCut::After(absl::Duration patience) {
  timer_ = timers_.PostAfter(patience, [context = context_] { context->Cancel(); });
}

void CallCut::Over() {
  context_->Forget();
  timers_.Cancel(timer_);
}

}  // namespace asterism::controller
