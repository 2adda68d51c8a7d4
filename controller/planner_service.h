// File: controller/planner_service.h
//
// asterism.v1.Planner as gRPC sees it: room, who leads, who calls, the caller's turn, then the
// desk.
//
//   std::unique_ptr<grpc::Service> service = MakePlannerService({...});
//
// The calls read no object of anybody, so whoever the API server knows may make them; they take
// room and turns with those of the placement service. A standby looks at nobody's token. Calibrate
// with `keep` changes what the whole cluster plans with: for that the caller has to be allowed to
// update the ConfigMap that it ends in.
//
// Thread-safety: gRPC's threads. Cost: one hop to the core and one to the worker a call.
#pragma once

#include <memory>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/executor.h"
#include "controller/access_review.h"
#include "controller/call_admission.h"
#include "controller/caller_identity.h"
#include "controller/caller_turns.h"
#include "controller/control_plane.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace asterism::controller {

inline constexpr char kPlannerService[] = "asterism.v1.Planner";

struct PlannerServiceParts {
  const base::Clock& clock;
  base::Executor& core;
  CallerTurns& turns;
  base::Executor& timers;
  ControlPlane& plane;
  CallerIdentity& identity;
  AccessReview& access;
  CallAdmission& admission;
  absl::Duration default_deadline;
};

// The parts outlive the server that the service is registered with.
std::unique_ptr<grpc::Service> MakePlannerService(const PlannerServiceParts& parts);

}  // namespace asterism::controller
