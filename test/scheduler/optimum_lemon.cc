#include <lemon/network_simplex.h>
#include <lemon/smart_graph.h>

#include "optimum_solvers.h"

namespace asterism::scheduler {

std::optional<int64_t> CheapestFlow(int nodes, const std::vector<FlowArc>& arcs, int64_t amount) {
  lemon::SmartDigraph graph;
  std::vector<lemon::SmartDigraph::Node> node;
  for (int i = 0; i < nodes; ++i) {
    node.push_back(graph.addNode());
  }
  lemon::SmartDigraph::ArcMap<int64_t> capacity(graph);
  lemon::SmartDigraph::ArcMap<int64_t> cost(graph);
  for (const FlowArc& arc : arcs) {
    const auto added =
        graph.addArc(node[static_cast<size_t>(arc.from)], node[static_cast<size_t>(arc.to)]);
    capacity[added] = arc.capacity;
    cost[added] = arc.cost;
  }
  lemon::NetworkSimplex<lemon::SmartDigraph, int64_t, int64_t> simplex(graph);
  simplex.upperMap(capacity).costMap(cost).stSupply(node.front(), node.back(), amount);
  if (simplex.run() != simplex.OPTIMAL) {
    return std::nullopt;
  }
  return simplex.totalCost<int64_t>();
}

}  // namespace asterism::scheduler
