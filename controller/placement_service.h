// File: controller/placement_service.h
//
// asterism.v1.Placement as gRPC sees it: credentials, limits and deadlines of each call, then the
// desk or the watch.
//
//   std::unique_ptr<grpc::Service> service = MakePlacementService({...}, options, retired);
//
// Every call passes in this order: is there room, does this process lead, who calls, is there room
// for that caller, may it, the answer. A standby looks at nobody's token. What may be large (a job)
// is read in the caller's turn on the worker, what is small at once; each method has its bound.
//
// Thread-safety: gRPC's threads. Cost: two hops to the core and two to the worker a call.
#pragma once

#include <atomic>
#include <memory>

#include "absl/time/time.h"
#include "base/executor.h"
#include "controller/call_admission.h"
#include "controller/caller_identity.h"
#include "controller/caller_turns.h"
#include "controller/control_plane.h"
#include "controller/placement_desk.h"
#include "controller/queue_watch.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace asterism::controller {

// Trailing metadata of a standby's answer: who leads.
inline constexpr char kLeaderMetadata[] = "asterism-leader";

struct PlacementServiceParts {
  base::Executor& core;
  CallerTurns& turns;
  base::Executor& timers;
  ControlPlane& plane;
  CallerIdentity& identity;
  PlacementDesk& desk;
  QueueWatch& watch;
  CallAdmission& admission;
  absl::Duration default_deadline;
};

// The parts outlive the server that the service is registered with. Streams end soon after
// `retired` becomes true.
std::unique_ptr<grpc::Service> MakePlacementService(
    const PlacementServiceParts& parts, std::shared_ptr<const std::atomic<bool>> retired);

}  // namespace asterism::controller
