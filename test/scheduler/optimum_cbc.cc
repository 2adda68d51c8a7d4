#include <coin/Cbc_C_Interface.h>

#include <limits>

#include "optimum_solvers.h"

namespace asterism::scheduler {

std::optional<double> Minimum(const IntegerProgram& program) {
  Cbc_Model* model = Cbc_newModel();
  Cbc_setLogLevel(model, 0);
  Cbc_setParameter(model, "log", "0");
  for (size_t i = 0; i < program.costs.size(); ++i) {
    Cbc_addCol(model, "", 0, program.mosts[i], program.costs[i], 1, 0, nullptr, nullptr);
  }
  for (const IntegerProgram::Row& row : program.rows) {
    std::vector<int> columns;
    std::vector<double> factors;
    for (const auto& [column, factor] : row.terms) {
      columns.push_back(column);
      factors.push_back(factor);
    }
    const char kind = row.kind == RowKind::kAtMost    ? 'L'
                      : row.kind == RowKind::kAtLeast ? 'G'
                                                      : 'E';
    Cbc_addRow(model, "", static_cast<int>(columns.size()), columns.data(), factors.data(), kind,
               row.right);
  }
  Cbc_solve(model);
  std::optional<double> minimum;
  if (Cbc_isProvenOptimal(model) != 0) {
    minimum = Cbc_getObjValue(model);
  }
  Cbc_deleteModel(model);
  return minimum;
}

}  // namespace asterism::scheduler
