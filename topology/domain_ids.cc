#include "topology/domain_ids.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "fmt/format.h"

namespace asterism::topology {
namespace {

struct Claim {
  size_t shared;
  size_t domain;
  std::string id;
};

}  // namespace

void DomainIds::Remember(const std::string& member, const std::string& id) {
  id_of_member_.emplace(member, id);
}

std::vector<std::string> DomainIds::Assign(const std::vector<ObservedDomain>& domains) {
  // Former members that are seen somewhere now, by id: who is absent has not moved.
  base::StringMap<size_t> present;
  for (const ObservedDomain& domain : domains) {
    for (const std::string& member : domain.members) {
      if (const auto it = id_of_member_.find(member); it != id_of_member_.end()) {
        ++present[it->second];
      }
    }
  }
  std::vector<Claim> claims;
  for (size_t i = 0; i < domains.size(); ++i) {
    std::map<std::string, size_t> shared;
    for (const std::string& member : domains[i].members) {
      if (const auto it = id_of_member_.find(member); it != id_of_member_.end()) {
        ++shared[it->second];
      }
    }
    for (const auto& [id, count] : shared) {
      if (2 * count >= present[id]) {
        claims.push_back({count, i, id});
      }
    }
  }
  std::sort(claims.begin(), claims.end(), [](const Claim& left, const Claim& right) {
    return std::tie(right.shared, left.domain, left.id) <
           std::tie(left.shared, right.domain, right.id);
  });
  std::vector<std::string> ids(domains.size());
  std::set<std::string> used;
  for (const Claim& claim : claims) {
    if (ids[claim.domain].empty() && used.insert(claim.id).second) {
      ids[claim.domain] = claim.id;
    }
  }
  for (size_t i = 0; i < domains.size(); ++i) {
    std::string wanted = domains[i].first_name;
    for (size_t twin = 2; ids[i].empty(); ++twin) {
      if (used.insert(wanted).second) {
        ids[i] = wanted;
      } else {
        wanted = fmt::format("{}-{}", domains[i].first_name, twin);
      }
    }
  }
  for (size_t i = 0; i < domains.size(); ++i) {
    for (const std::string& member : domains[i].members) {
      id_of_member_[member] = ids[i];
    }
  }
  return ids;
}

}  // namespace asterism::topology
