// File: test/scheduler/optimum_solvers.h
//
// Solvers of others, as judges of placements: CBC for integer programs, LEMON for flows, Scotch for
// the mapping of ranks to a tree.
//
//   IntegerProgram program;
//   const int x = program.AddColumn(/*cost=*/2, /*most=*/5);
//   program.rows.push_back({{{x, 1}}, RowKind::kAtLeast, 3});
//   EXPECT_EQ(Minimum(program), 6);
//
// Thread-safety: none of the three. Cost: milliseconds for some hundred columns or ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace asterism::scheduler {

enum class RowKind { kAtMost, kAtLeast, kEqual };

// Smallest sum of costs over whole numbers from 0 to `most`, one a column.
struct IntegerProgram {
  struct Row {
    std::vector<std::pair<int, double>> terms;  // column, factor
    RowKind kind = RowKind::kAtMost;
    double right = 0;
  };

  int AddColumn(double cost, double most) {
    costs.push_back(cost);
    mosts.push_back(most);
    return static_cast<int>(costs.size()) - 1;
  }

  std::vector<double> costs;
  std::vector<double> mosts;
  std::vector<Row> rows;
};
// Nothing: there is no solution.
std::optional<double> Minimum(const IntegerProgram& program);

struct FlowArc {
  int from = 0;
  int to = 0;
  int64_t capacity = 0;
  int64_t cost = 0;  // of one unit
};
// Of all flows of `amount` from node 0 to the last node, what the cheapest costs. Nothing: none.
std::optional<int64_t> CheapestFlow(int nodes, const std::vector<FlowArc>& arcs, int64_t amount);

struct Traffic {
  int left = 0;
  int right = 0;
  int amount = 0;
};
// A tree whose root has arities[0] children, each of those arities[1], and so on. The answer: by
// rank its leaf, one leaf a rank. `costs`: of an edge below each depth.
std::vector<int> MapToTree(int ranks, const std::vector<Traffic>& traffic,
                           const std::vector<int>& arities, const std::vector<int>& costs);

}  // namespace asterism::scheduler
