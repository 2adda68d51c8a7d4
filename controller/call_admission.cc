#include "controller/call_admission.h"

#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace asterism::controller {
namespace {

// What is taken of a room.
struct Taken {
  int calls = 0;
  int streams = 0;
  size_t bytes = 0;

  int& Of(CallKind kind) { return kind == CallKind::kStream ? streams : calls; }
  bool none() const { return calls == 0 && streams == 0; }
};

struct RoomLimits {
  int calls;
  int streams;
  size_t bytes;
};

absl::Status Full(std::string_view whose, std::string_view what, size_t limit) {
  return absl::ResourceExhaustedError(
      fmt::format("{} {}{} are served at this moment, which is the limit: call again later", limit,
                  what, whose));
}

absl::Status Take(CallKind kind, size_t bytes, const RoomLimits& limits, std::string_view whose,
                  Taken& taken) {
  const bool stream = kind == CallKind::kStream;
  const int limit = stream ? limits.streams : limits.calls;
  if (taken.Of(kind) >= limit) {
    return Full(whose, stream ? "streams" : "calls", static_cast<size_t>(limit));
  }
  if (bytes > limits.bytes - taken.bytes) {
    return Full(whose, "bytes of requests", limits.bytes);
  }
  ++taken.Of(kind);
  taken.bytes += bytes;
  return absl::OkStatus();
}

void GiveBack(CallKind kind, size_t bytes, Taken& taken) {
  --taken.Of(kind);
  taken.bytes -= bytes;
}

}  // namespace

// All rooms under one lock.
class CallRooms {
 public:
  explicit CallRooms(const CallAdmissionOptions& options)
      : limits_{options.calls_max, options.streams_max, options.bytes_max},
        caller_limits_{options.calls_per_caller_max, options.streams_per_caller_max,
                       options.bytes_per_caller_max} {}

  absl::Status Enter(CallKind kind, size_t bytes) {
    absl::MutexLock lock(&mutex_);
    return Take(kind, bytes, limits_, "", all_);
  }
  void Leave(CallKind kind, size_t bytes) {
    absl::MutexLock lock(&mutex_);
    GiveBack(kind, bytes, all_);
  }
  absl::Status EnterOf(const std::string& caller, CallKind kind, size_t bytes) {
    absl::MutexLock lock(&mutex_);
    const auto slot = callers_.try_emplace(caller).first;
    const absl::Status status = Take(kind, bytes, caller_limits_, " for one caller", slot->second);
    if (slot->second.none()) {
      callers_.erase(slot);
    }
    return status;
  }
  void LeaveOf(const std::string& caller, CallKind kind, size_t bytes) {
    absl::MutexLock lock(&mutex_);
    const auto slot = callers_.find(caller);
    GiveBack(kind, bytes, slot->second);
    if (slot->second.none()) {
      callers_.erase(slot);
    }
  }

 private:
  const RoomLimits limits_;
  const RoomLimits caller_limits_;
  absl::Mutex mutex_;
  Taken all_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Taken> callers_ ABSL_GUARDED_BY(mutex_);  // those with calls
};

AdmittedCall::AdmittedCall(std::shared_ptr<CallRooms> rooms, CallKind kind, size_t bytes)
    : rooms_(std::move(rooms)), kind_(kind), bytes_(bytes) {}

AdmittedCall::~AdmittedCall() {
  if (caller_ != nullptr) {
    rooms_->LeaveOf(caller_->key, kind_, bytes_);
  }
  rooms_->Leave(kind_, bytes_);
}

absl::Status AdmittedCall::BelongTo(std::shared_ptr<const Caller> caller) {
  if (caller_ != nullptr && caller_->key == caller->key) {
    caller_ = std::move(caller);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(rooms_->EnterOf(caller->key, kind_, bytes_));
  if (caller_ != nullptr) {
    rooms_->LeaveOf(caller_->key, kind_, bytes_);
  }
  caller_ = std::move(caller);
  return absl::OkStatus();
}

CallAdmission::CallAdmission(const base::Clock& clock, base::MetricRegistry& registry,
                             CallAdmissionOptions options)
    : clock_(clock),
      rooms_(std::make_shared<CallRooms>(options)),
      calls_(registry.AddCounter(
          "asterism_grpc_calls_total",
          "Calls of asterism.v1.Placement that have ended, by the gRPC code.", {"method", "code"})),
      seconds_(registry.AddHistogram("asterism_grpc_seconds",
                                     "From the start of a call to its end; of a stream, too.",
                                     {"method"})) {}

absl::StatusOr<std::shared_ptr<AdmittedCall>> CallAdmission::Admit(CallKind kind, size_t bytes) {
  RETURN_IF_ERROR(rooms_->Enter(kind, bytes));
  return std::make_shared<AdmittedCall>(rooms_, kind, bytes);
}

void CallAdmission::Count(std::string_view method, absl::StatusCode code, base::SteadyTime began) {
  const std::string name(method);
  calls_.With({name, absl::StatusCodeToString(code)}).Add();
  seconds_.With({name}).Observe(clock_.SteadyNow() - began);
}

}  // namespace asterism::controller
