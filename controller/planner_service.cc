#include "controller/planner_service.h"

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "asterism/v1/planner.grpc.pb.h"
#include "base/status_macros.h"
#include "controller/calibration_desk.h"
#include "controller/call_credentials.h"
#include "controller/placement_desk.h"
#include "controller/placement_service.h"
#include "controller/planner_desk.h"
#include "controller/unary_call.h"
#include "fmt/format.h"

namespace asterism::controller {
namespace {

template <typename Request>
absl::Status ReadPlannerRequest(const grpc::ByteBuffer& bytes, Request& request) {
  grpc::ByteBuffer shared(bytes);
  if (grpc::SerializationTraits<Request>::Deserialize(&shared, &request).ok()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("the request is no {}: send that message of proto/asterism/v1/planner.proto",
                  Request::descriptor()->full_name()));
}

using RawPlannerService =
    v1::Planner::WithRawCallbackMethod_Plan<v1::Planner::WithRawCallbackMethod_Explain<
        v1::Planner::WithRawCallbackMethod_Validate<v1::Planner::WithRawCallbackMethod_Replan<
            v1::Planner::WithRawCallbackMethod_Calibrate<v1::Planner::Service>>>>>;

using CalibrateHandle = std::shared_ptr<UnaryCall<v1::CalibrateResponse>::Handle>;

// Who may write the object with kubectl may have it written.
AccessRight RightToKeep(const CalibrationKeeper& keeper) {
  return {.verb = "update",
          .group = "",
          .resource = std::string(operators::kCalibrationMaps.plural),
          .namespace_name = keeper.namespace_name(),
          .name = std::string(kCalibrationMap)};
}

// On the core.
void KeepCalibration(const PlannerServiceParts& parts, const std::shared_ptr<AdmittedCall>& call,
                     CalibrationAnswer answer, const CalibrateHandle& handle) {
  CalibrationKeeper& keeper = parts.plane.calibrations();
  parts.access.Review(
      call->caller(), RightToKeep(keeper),
      [&keeper, call, handle, answer = std::move(answer)](const absl::Status& allowed) mutable {
        if (!allowed.ok()) {
          handle->Finish(allowed);
        } else if (call->wanted()) {
          keeper.Keep(*std::move(answer.to_keep),
                      [handle, response = std::move(answer.response)](const absl::Status& status) {
                        handle->Finish(status.ok() ? absl::StatusOr<v1::CalibrateResponse>(response)
                                                   : absl::StatusOr<v1::CalibrateResponse>(status));
                      });
        }
      });
}

// In the caller's turn.
void AnswerCalibrateCall(const PlannerServiceParts& parts,
                         const std::shared_ptr<AdmittedCall>& call, const grpc::ByteBuffer& bytes,
                         const CalibrateHandle& handle) {
  v1::CalibrateRequest request;
  if (const absl::Status read = ReadPlannerRequest(bytes, request); !read.ok()) {
    handle->Finish(read);
    return;
  }
  absl::StatusOr<CalibrationAnswer> answer =
      AnswerCalibrate(request, *parts.plane.calibrations().current(), parts.clock.Now());
  if (!answer.ok()) {
    handle->Finish(answer.status());
  } else if (!answer->to_keep.has_value()) {
    handle->Finish(std::move(answer->response));
  } else {
    parts.core.Post([parts, call, handle, answer = *std::move(answer)]() mutable {
      if (call->wanted()) {
        KeepCalibration(parts, call, std::move(answer), handle);
      }
    });
  }
}

class PlannerService final : public RawPlannerService {
 public:
  explicit PlannerService(const PlannerServiceParts& parts) : parts_(parts) {}

  grpc::ServerUnaryReactor* Plan(grpc::CallbackServerContext* context,
                                 const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override {
    return StartAnswer(*context, "Plan", *request, response, &AnswerPlanRequest);
  }
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override {
    return StartAnswer(*context, "ExplainPlan", *request, response, &AnswerExplainPlan);
  }
  grpc::ServerUnaryReactor* Validate(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override {
    return StartAnswer(*context, "Validate", *request, response, &AnswerValidate);
  }
  grpc::ServerUnaryReactor* Replan(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override {
    return StartAnswer(*context, "Replan", *request, response, &AnswerReplan);
  }
  grpc::ServerUnaryReactor* Calibrate(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override {
    return Start<v1::CalibrateResponse>(
        *context, "Calibrate", *request, response,
        [parts = parts_](const SharedCall& call, const grpc::ByteBuffer& bytes,
                         const CalibrateHandle& handle) {
          AnswerCalibrateCall(parts, call, bytes, handle);
        });
  }

 private:
  using SharedCall = std::shared_ptr<AdmittedCall>;

  // Null where the call has ended already.
  template <typename Response>
  SharedCall Enter(grpc::CallbackServerContext& context, UnaryCall<Response>& unary, size_t bytes) {
    SharedCall call = unary.Enter(bytes);
    if (call == nullptr) {
      return nullptr;
    }
    if (!parts_.plane.leading()) {
      if (const std::string leader = parts_.plane.leader(); !leader.empty()) {
        context.AddTrailingMetadata(kLeaderMetadata, leader);
      }
      unary.handle()->Finish(NotLeadingError(parts_.plane));
      return nullptr;
    }
    if (context.deadline() == std::chrono::system_clock::time_point::max()) {
      unary.EndAfter(parts_.default_deadline);
    }
    return call;
  }

  // `work` is done in the caller's turn, while somebody still waits for it, and ends the call.
  template <typename Response, typename Work>
  grpc::ServerUnaryReactor* Start(grpc::CallbackServerContext& context, std::string_view method,
                                  const grpc::ByteBuffer& bytes, grpc::ByteBuffer* response,
                                  Work work) {
    auto* unary =
        new UnaryCall<Response>(context, parts_.admission, parts_.timers, method, response);
    const std::shared_ptr<typename UnaryCall<Response>::Handle> handle = unary->handle();
    const SharedCall call = Enter(context, *unary, bytes.Length());
    if (call == nullptr) {
      return unary;
    }
    parts_.core.Post([&identity = parts_.identity, &turns = parts_.turns, call, handle, bytes, work,
                      credentials = CredentialsOf(context)] {
      if (!call->wanted()) {
        return;
      }
      identity.Identify(
          credentials, [&turns, call, handle, bytes,
                        work](const absl::StatusOr<std::shared_ptr<const Caller>>& caller) {
            const absl::Status status = caller.ok() ? call->BelongTo(*caller) : caller.status();
            if (!status.ok()) {
              handle->Finish(status);
            } else {
              turns.Post(call->caller()->key, [call, handle, bytes, work] {
                if (call->wanted()) {
                  work(call, bytes, handle);
                }
              });
            }
          });
    });
    return unary;
  }

  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* StartAnswer(
      grpc::CallbackServerContext& context, std::string_view method, const grpc::ByteBuffer& bytes,
      grpc::ByteBuffer* response,
      absl::StatusOr<Response> (*answer)(const Request&, const planner::CalibrationSet&)) {
    using Handle = std::shared_ptr<typename UnaryCall<Response>::Handle>;
    return Start<Response>(
        context, method, bytes, response,
        [&plane = parts_.plane, answer](const SharedCall&, const grpc::ByteBuffer& sent,
                                        const Handle& handle) {
          Request request;
          const absl::Status read = ReadPlannerRequest(sent, request);
          handle->Finish(read.ok() ? answer(request, *plane.calibrations().current())
                                   : absl::StatusOr<Response>(read));
        });
  }

  const PlannerServiceParts parts_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakePlannerService(const PlannerServiceParts& parts) {
  return std::make_unique<PlannerService>(parts);
}

}  // namespace asterism::controller
