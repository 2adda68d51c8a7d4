#include "controller/planner_service.h"

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "asterism/v1/planner.grpc.pb.h"
#include "base/status_macros.h"
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

class PlannerService final : public RawPlannerService {
 public:
  explicit PlannerService(const PlannerServiceParts& parts) : parts_(parts) {}

  grpc::ServerUnaryReactor* Plan(grpc::CallbackServerContext* context,
                                 const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override {
    return Start(*context, "Plan", *request, response, &AnswerPlanRequest);
  }
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override {
    return Start(*context, "ExplainPlan", *request, response, &AnswerExplainPlan);
  }
  grpc::ServerUnaryReactor* Validate(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override {
    return Start(*context, "Validate", *request, response, &AnswerValidate);
  }
  grpc::ServerUnaryReactor* Replan(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override {
    return Start(*context, "Replan", *request, response, &AnswerReplan);
  }
  grpc::ServerUnaryReactor* Calibrate(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override {
    return Start(*context, "Calibrate", *request, response, &AnswerCalibrate);
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

  // In the caller's turn: reads the request and answers it.
  template <typename Request, typename Response>
  static void Answer(const SharedCall& call, const grpc::ByteBuffer& bytes,
                     typename UnaryCall<Response>::Handle& handle,
                     absl::StatusOr<Response> (*answer)(const Request&)) {
    if (!call->wanted()) {
      return;
    }
    Request request;
    const absl::Status read = ReadPlannerRequest(bytes, request);
    handle.Finish(read.ok() ? answer(request) : absl::StatusOr<Response>(read));
  }

  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Start(grpc::CallbackServerContext& context, std::string_view method,
                                  const grpc::ByteBuffer& bytes, grpc::ByteBuffer* response,
                                  absl::StatusOr<Response> (*answer)(const Request&)) {
    auto* unary =
        new UnaryCall<Response>(context, parts_.admission, parts_.timers, method, response);
    const std::shared_ptr<typename UnaryCall<Response>::Handle> handle = unary->handle();
    const SharedCall call = Enter(context, *unary, bytes.Length());
    if (call == nullptr) {
      return unary;
    }
    parts_.core.Post([&identity = parts_.identity, &turns = parts_.turns, call, handle, bytes,
                      answer, credentials = CredentialsOf(context)] {
      if (!call->wanted()) {
        return;
      }
      identity.Identify(
          credentials, [&turns, call, handle, bytes,
                        answer](const absl::StatusOr<std::shared_ptr<const Caller>>& caller) {
            const absl::Status status = caller.ok() ? call->BelongTo(*caller) : caller.status();
            if (!status.ok()) {
              handle->Finish(status);
            } else {
              turns.Post(call->caller()->key, [call, handle, bytes, answer] {
                Answer<Request, Response>(call, bytes, *handle, answer);
              });
            }
          });
    });
    return unary;
  }

  const PlannerServiceParts parts_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakePlannerService(const PlannerServiceParts& parts) {
  return std::make_unique<PlannerService>(parts);
}

}  // namespace asterism::controller
