// File: topology/import/name_budget.h
//
// Expands the host lists of one text, within kDeclaredNodesMax names for the whole text, so that no
// text becomes more than it may.
//
//   NameBudget budget;
//   budget.Expand("n[01-03]", leaf.nodes);     // an error leaves `names` as they are
//
// Thread-safety: none. Cost: linear in the names.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace asterism::topology {

inline constexpr size_t kDeclaredNodesMax = 1'000'000;

class NameBudget {
 public:
  absl::Status Expand(std::string_view list, std::vector<std::string>& names);

 private:
  size_t used_ = 0;
};

}  // namespace asterism::topology
