#include "controller/placement_edge.h"

#include <utility>

#include "controller/placement_service.h"
#include "controller/planner_service.h"
#include "grpcpp/impl/service_type.h"

namespace asterism::controller {

PlacementEdge::PlacementEdge(Dependencies dependencies, PlacementEdgeOptions options)
    : dependencies_(dependencies),
      options_(options),
      admission_(dependencies_.clock, dependencies_.registry, options_.admission),
      identity_(dependencies_.clock, dependencies_.client, options_.identity),
      access_(dependencies_.clock, dependencies_.client, options_.access),
      turns_(worker_),
      desk_({dependencies_.clock, dependencies_.core, turns_, dependencies_.client,
             dependencies_.plane, access_}),
      watch_({dependencies_.clock, dependencies_.core, turns_, dependencies_.plane, identity_,
              access_},
             options_.watch) {}

PlacementEdge::~PlacementEdge() {
  Stop();
}

void PlacementEdge::Stop() {
  worker_.Stop();
  timers_.Stop();
}

std::unique_ptr<grpc::Service> PlacementEdge::MakeService(
    std::shared_ptr<const std::atomic<bool>> retired) {
  return MakePlacementService({.core = dependencies_.core,
                               .turns = turns_,
                               .timers = timers_,
                               .plane = dependencies_.plane,
                               .identity = identity_,
                               .desk = desk_,
                               .watch = watch_,
                               .admission = admission_,
                               .default_deadline = options_.default_deadline},
                              std::move(retired));
}

std::unique_ptr<grpc::Service> PlacementEdge::MakePlanner() {
  return MakePlannerService({.clock = dependencies_.clock,
                             .core = dependencies_.core,
                             .turns = turns_,
                             .timers = timers_,
                             .plane = dependencies_.plane,
                             .identity = identity_,
                             .access = access_,
                             .admission = admission_,
                             .default_deadline = options_.default_deadline});
}

}  // namespace asterism::controller
