// File: controller/placement_edge.h
//
// All that stands between gRPC and the control plane: who calls, what it may, the desk and the
// watch that answer, and a thread for what takes long.
//
//   PlacementEdge edge({clock, core, client, plane, registry}, {});
//   StatusOr<...> server = GrpcServer::Start(ServicesOf(edge, nullptr), ...);
//   server->Stop(); edge.Stop();
//
// Thread-safety: construct it before the core has work for it; destroy it after the server has
// stopped and the core runs no more. Cost: two threads.
#pragma once

#include <atomic>
#include <memory>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/metrics.h"
#include "controller/access_review.h"
#include "controller/call_admission.h"
#include "controller/caller_identity.h"
#include "controller/caller_turns.h"
#include "controller/control_plane.h"
#include "controller/placement_desk.h"
#include "controller/queue_watch.h"
#include "kube/client.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace asterism::controller {

struct PlacementEdgeOptions {
  CallerIdentityOptions identity;
  AccessReviewOptions access;
  QueueWatchOptions watch;
  CallAdmissionOptions admission;
  absl::Duration default_deadline = absl::Seconds(10);  // of a call that states none
};

inline constexpr char kPlacementService[] = "asterism.v1.Placement";

class PlacementEdge {
 public:
  struct Dependencies {
    const base::Clock& clock;
    base::Executor& core;
    kube::Client& client;
    ControlPlane& plane;
    base::MetricRegistry& registry;
  };

  PlacementEdge(Dependencies dependencies, PlacementEdgeOptions options);
  ~PlacementEdge();  // Stop

  // Ends the threads; what is not done stays undone. After the server, before the plane.
  void Stop();
  // One for each server; see MakePlacementService.
  std::unique_ptr<grpc::Service> MakeService(std::shared_ptr<const std::atomic<bool>> retired);
  // asterism.v1.Planner, in the same rooms and turns.
  std::unique_ptr<grpc::Service> MakePlanner();

 private:
  const Dependencies dependencies_;
  const PlacementEdgeOptions options_;
  CallAdmission admission_;
  CallerIdentity identity_;
  AccessReview access_;
  base::ThreadExecutor worker_{"placement"};
  base::ThreadExecutor timers_{"placement-time"};  // of its own: deadlines hold while work goes on
  CallerTurns turns_;
  PlacementDesk desk_;
  QueueWatch watch_;
};

}  // namespace asterism::controller
