// File: controller/call_admission.h
//
// Lets calls and streams in, as many and as large as there is room for: room of all, and room of
// each caller, so that one caller cannot take it all. Counts how each ended, for the metrics.
//
//   CallAdmission admission(clock, registry, {});
//   StatusOr<std::shared_ptr<AdmittedCall>> call = admission.Admit(CallKind::kUnary, bytes);
//   RETURN_IF_ERROR((*call)->BelongTo(caller));       // once it is known who calls
//   worker.Post([call = *call] { if (call->wanted()) Work(*call->caller()); });
//
// Whatever works for a call holds its AdmittedCall, and the room is free again when the last one
// lets go of it: a call that ended early, by its deadline or as its caller went, keeps its room
// until the work that was begun for it is over, and work that has not begun is skipped.
//
// Thread-safety: any thread, unless stated. Cost: a lock and a look-up by caller.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "controller/caller_identity.h"

namespace asterism::controller {

enum class CallKind { kUnary, kStream };

struct CallAdmissionOptions {
  int calls_max = 64;
  int calls_per_caller_max = 16;
  int streams_max = 256;
  int streams_per_caller_max = 16;
  // Of the requests as they came.
  size_t bytes_max = size_t{8} << 20;
  size_t bytes_per_caller_max = size_t{2} << 20;
};

class CallRooms;

// A call that was let in, for all who work for it.
class AdmittedCall {
 public:
  AdmittedCall(std::shared_ptr<CallRooms> rooms, CallKind kind, size_t bytes);
  ~AdmittedCall();
  AdmittedCall(const AdmittedCall&) = delete;
  AdmittedCall& operator=(const AdmittedCall&) = delete;

  // Takes room of that caller; not OK where it has none left, and then nothing has changed. On the
  // core executor, as often as the caller is identified.
  absl::Status BelongTo(std::shared_ptr<const Caller> caller);
  // Null before. To be read where BelongTo is known to be over.
  const std::shared_ptr<const Caller>& caller() const { return caller_; }

  // False: it has ended, and work for it would be in vain.
  bool wanted() const { return wanted_; }
  void Drop() { wanted_ = false; }

 private:
  const std::shared_ptr<CallRooms> rooms_;
  const CallKind kind_;
  const size_t bytes_;
  std::shared_ptr<const Caller> caller_;
  std::atomic<bool> wanted_{true};
};

class CallAdmission {
 public:
  CallAdmission(const base::Clock& clock, base::MetricRegistry& registry,
                CallAdmissionOptions options);

  // kResourceExhausted: there is no room. Calls may outlive the admission.
  absl::StatusOr<std::shared_ptr<AdmittedCall>> Admit(CallKind kind, size_t bytes);

  base::SteadyTime Now() const { return clock_.SteadyNow(); }
  // `method` is one of the service's.
  void Count(std::string_view method, absl::StatusCode code, base::SteadyTime began);

 private:
  const base::Clock& clock_;
  const std::shared_ptr<CallRooms> rooms_;
  base::CounterFamily& calls_;
  base::HistogramFamily& seconds_;
};

}  // namespace asterism::controller
