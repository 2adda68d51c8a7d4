#include "topology/domain_ids.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
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
  // The former id of each member, in the order given; null: a new one.
  std::vector<const std::string*> former;
  for (const ObservedDomain& domain : domains) {
    for (const std::string& member : domain.members) {
      const auto it = id_of_member_.find(member);
      former.push_back(it == id_of_member_.end() ? nullptr : &it->second);
    }
  }
  // Former members that are seen somewhere now, by id: who is absent has not moved.
  base::StringMap<size_t> present;
  for (const std::string* id : former) {
    if (id != nullptr) {
      ++present[*id];
    }
  }
  std::vector<Claim> claims;
  auto next = former.begin();
  for (size_t i = 0; i < domains.size(); ++i) {
    std::map<std::string_view, size_t> shared;
    for (size_t member = 0; member < domains[i].members.size(); ++member, ++next) {
      if (*next != nullptr) {
        ++shared[**next];
      }
    }
    for (const auto& [id, count] : shared) {
      if (2 * count >= present.find(id)->second) {
        claims.push_back({count, i, std::string(id)});
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
      if (std::string& id = id_of_member_[member]; id != ids[i]) {
        id = ids[i];
      }
    }
  }
  return ids;
}

}  // namespace asterism::topology
