// File: controller/call_cut.h
//
// Cuts a gRPC call that has ended for us and not for its peer. What a reactor finishes waits behind
// what it wrote, and a peer that does not read keeps that for ever, with all the call holds.
//
//   class Reactor : public grpc::ServerUnaryReactor {
//     void End() { cut_.After(absl::Seconds(1)); Finish(status); }
//     void OnDone() override { cut_.Over(); delete this; }
//     CallCut cut_{context, timers};
//   };
//
// For the sources that see gRPC; include it nowhere else.
//
// Thread-safety: any thread. Cost: a timer a call.
#pragma once

#include <atomic>
#include <memory>

#include "absl/time/time.h"
#include "base/executor.h"
#include "grpcpp/support/server_callback.h"

namespace asterism::controller {

class CallCut {
 public:
  // The context is gRPC's, and lives until Over. `timers` outlives the calls.
  CallCut(grpc::CallbackServerContext& context, base::Executor& timers);
  ~CallCut();

  // Cancels the call then, unless it is over. Once, and before the reactor finishes.
  void After(absl::Duration patience);
  // The reactor's OnDone says so; the context is not touched again.
  void Over();

 private:
  class Context;

  base::Executor& timers_;
  const std::shared_ptr<Context> context_;
  std::atomic<base::TimerId> timer_{0};
};

}  // namespace asterism::controller
