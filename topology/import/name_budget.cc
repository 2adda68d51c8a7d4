#include "topology/import/name_budget.h"

#include <algorithm>

#include "base/status_macros.h"
#include "topology/host_list.h"

namespace asterism::topology {

absl::Status NameBudget::Expand(std::string_view list, std::vector<std::string>& names) {
  ASSIGN_OR_RETURN(const std::vector<std::string> expanded,
                   ExpandHostList(list, kDeclaredNodesMax - std::min(kDeclaredNodesMax, used_)));
  used_ += expanded.size();
  names.insert(names.end(), expanded.begin(), expanded.end());
  return absl::OkStatus();
}

}  // namespace asterism::topology
