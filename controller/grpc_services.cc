#include "controller/grpc_services.h"

#include "controller/planner_service.h"
#include "grpcpp/impl/service_type.h"

namespace asterism::controller {

GrpcServices ServicesOf(PlacementEdge& placement, AgentEdge* agents) {
  GrpcServices services{.names = {kPlacementService, kPlannerService}};
  if (agents != nullptr) {
    services.names.emplace_back(kAgentsService);
  }
  services.make = [&placement, agents](const std::shared_ptr<const std::atomic<bool>>& retired) {
    std::vector<std::unique_ptr<grpc::Service>> made;
    made.push_back(placement.MakeService(retired));
    made.push_back(placement.MakePlanner());
    if (agents != nullptr) {
      made.push_back(agents->MakeService(retired));
    }
    return made;
  };
  return services;
}

}  // namespace asterism::controller
