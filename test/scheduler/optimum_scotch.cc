#include <cstdio>
// Needs <cstdio> before it.
#include <scotch.h>

#include "base/check.h"
#include "optimum_solvers.h"

namespace asterism::scheduler {

std::vector<int> MapToTree(int ranks, const std::vector<Traffic>& traffic,
                           const std::vector<int>& arities, const std::vector<int>& costs) {
  std::vector<std::vector<std::pair<int, int>>> neighbours(static_cast<size_t>(ranks));
  for (const Traffic& pair : traffic) {
    neighbours[static_cast<size_t>(pair.left)].push_back({pair.right, pair.amount});
    neighbours[static_cast<size_t>(pair.right)].push_back({pair.left, pair.amount});
  }
  std::vector<SCOTCH_Num> begins = {0};
  std::vector<SCOTCH_Num> ends;
  std::vector<SCOTCH_Num> amounts;
  for (const auto& row : neighbours) {
    for (const auto& [other, amount] : row) {
      ends.push_back(other);
      amounts.push_back(amount);
    }
    begins.push_back(static_cast<SCOTCH_Num>(ends.size()));
  }
  SCOTCH_randomReset();
  SCOTCH_Graph graph;
  SCOTCH_graphInit(&graph);
  CHECK_THAT(
      SCOTCH_graphBuild(&graph, 0, ranks, begins.data(), begins.data() + 1, nullptr, nullptr,
                        static_cast<SCOTCH_Num>(ends.size()), ends.data(), amounts.data()) == 0,
      "Scotch takes the graph");
  const std::vector<SCOTCH_Num> sizes(arities.begin(), arities.end());
  const std::vector<SCOTCH_Num> links(costs.begin(), costs.end());
  SCOTCH_Arch tree;
  SCOTCH_archInit(&tree);
  CHECK_THAT(SCOTCH_archTleaf(&tree, static_cast<SCOTCH_Num>(sizes.size()), sizes.data(),
                              links.data()) == 0,
             "Scotch takes the tree");
  SCOTCH_Strat strategy;
  SCOTCH_stratInit(&strategy);
  std::vector<SCOTCH_Num> leaves(static_cast<size_t>(ranks));
  CHECK_THAT(SCOTCH_graphMap(&graph, &tree, &strategy, leaves.data()) == 0, "Scotch maps");
  SCOTCH_stratExit(&strategy);
  SCOTCH_archExit(&tree);
  SCOTCH_graphExit(&graph);
  return {leaves.begin(), leaves.end()};
}

}  // namespace asterism::scheduler
