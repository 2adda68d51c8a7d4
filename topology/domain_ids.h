// File: topology/domain_ids.h
//
// Gives domains ids that outlive changes of membership: a domain keeps its id while at least half
// of its members stay together, whatever else changes; a new one is named after what it was first
// seen with.
//
//   DomainIds ids;
//   ids.Assign({{"leaf-0c42a1", {"n1", "n2"}}});   // {"leaf-0c42a1"}
//   ids.Assign({{"leaf-0c42ff", {"n1", "n2"}}});   // {"leaf-0c42a1"}: the switch was replaced
//
// Thread-safety: none. Cost: linear in members.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/strings.h"

namespace asterism::topology {

struct ObservedDomain {
  std::string first_name;  // the id if the domain is new
  std::vector<std::string> members;
};

class DomainIds {
 public:
  // What was known before a restart: the ids that members carry as labels.
  void Remember(const std::string& member, const std::string& id);

  // The id of each domain, in the order given. Ids are unique.
  std::vector<std::string> Assign(const std::vector<ObservedDomain>& domains);

 private:
  base::StringMap<std::string> id_of_member_;
};

}  // namespace asterism::topology
