#include "topology/leaf_groups.h"

#include <algorithm>
#include <numeric>

namespace asterism::topology {
namespace {

class DisjointLeafs {
 public:
  explicit DisjointLeafs(size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), 0U);
  }
  uint32_t Find(uint32_t leaf) {
    while (parent_[leaf] != leaf) {
      parent_[leaf] = parent_[parent_[leaf]];
      leaf = parent_[leaf];
    }
    return leaf;
  }
  // The lower number stays the root, so that groups are numbered by their first leaf.
  void Join(uint32_t left, uint32_t right) {
    left = Find(left);
    right = Find(right);
    parent_[std::max(left, right)] = std::min(left, right);
  }

 private:
  std::vector<uint32_t> parent_;
};

struct LeafsOfHosts {
  std::vector<uint32_t> begin;
  std::vector<uint32_t> leafs;
};

LeafsOfHosts Invert(const LeafHosts& hosts) {
  LeafsOfHosts result;
  result.begin.assign(hosts.host_count() + 1, 0);
  for (size_t leaf = 0; leaf < hosts.leaf_count(); ++leaf) {
    for (const uint32_t host : hosts.HostsOf(leaf)) {
      ++result.begin[host + 1];
    }
  }
  std::partial_sum(result.begin.begin(), result.begin.end(), result.begin.begin());
  result.leafs.resize(result.begin.back());
  std::vector<uint32_t> next(result.begin.begin(), result.begin.end() - 1);
  for (size_t leaf = 0; leaf < hosts.leaf_count(); ++leaf) {
    for (const uint32_t host : hosts.HostsOf(leaf)) {
      result.leafs[next[host]++] = static_cast<uint32_t>(leaf);
    }
  }
  return result;
}

void JoinOverlapping(const LeafHosts& hosts, const LeafsOfHosts& inverse, DisjointLeafs& groups) {
  std::vector<uint32_t> shared(hosts.leaf_count(), 0);
  std::vector<uint32_t> touched;
  for (uint32_t leaf = 0; leaf < hosts.leaf_count(); ++leaf) {
    touched.clear();
    for (const uint32_t host : hosts.HostsOf(leaf)) {
      // Leafs of a host are ascending: each pair is looked at once, from its lower leaf.
      for (uint32_t i = inverse.begin[host + 1]; i-- > inverse.begin[host];) {
        const uint32_t other = inverse.leafs[i];
        if (other <= leaf) {
          break;
        }
        if (shared[other]++ == 0) {
          touched.push_back(other);
        }
      }
    }
    for (const uint32_t other : touched) {
      const size_t both = shared[other];
      const size_t any = hosts.HostsOf(leaf).size() + hosts.HostsOf(other).size() - both;
      if (2 * both >= any) {
        groups.Join(leaf, other);
      }
      shared[other] = 0;
    }
  }
}

}  // namespace

void LeafHosts::AddLeaf(std::span<const uint32_t> hosts) {
  const auto begin = static_cast<std::ptrdiff_t>(hosts_.size());
  hosts_.insert(hosts_.end(), hosts.begin(), hosts.end());
  std::sort(hosts_.begin() + begin, hosts_.end());
  hosts_.erase(std::unique(hosts_.begin() + begin, hosts_.end()), hosts_.end());
  if (static_cast<size_t>(begin) < hosts_.size()) {
    host_count_ = std::max(host_count_, size_t{hosts_.back()} + 1);
  }
  begin_.push_back(static_cast<uint32_t>(hosts_.size()));
}

LeafGrouping GroupLeafs(const LeafHosts& hosts) {
  const LeafsOfHosts inverse = Invert(hosts);
  DisjointLeafs joined(hosts.leaf_count());
  JoinOverlapping(hosts, inverse, joined);

  LeafGrouping result;
  result.group_of_leaf.assign(hosts.leaf_count(), kNoGroup);
  for (uint32_t leaf = 0; leaf < hosts.leaf_count(); ++leaf) {
    const uint32_t root = joined.Find(leaf);
    if (root == leaf) {
      result.group_of_leaf[leaf] = static_cast<uint32_t>(result.group_count++);
    }
    result.group_of_leaf[leaf] = result.group_of_leaf[root];
  }
  result.group_of_host.assign(hosts.host_count(), kNoGroup);
  std::vector<uint32_t> groups;
  for (uint32_t host = 0; host < hosts.host_count(); ++host) {
    groups.clear();
    for (uint32_t i = inverse.begin[host]; i < inverse.begin[host + 1]; ++i) {
      groups.push_back(result.group_of_leaf[inverse.leafs[i]]);
    }
    std::sort(groups.begin(), groups.end());
    size_t best = 0;
    for (size_t i = 0; i < groups.size();) {
      size_t end = i;
      while (end < groups.size() && groups[end] == groups[i]) {
        ++end;
      }
      if (end - i > best) {
        best = end - i;
        result.group_of_host[host] = groups[i];
      }
      i = end;
    }
  }
  return result;
}

}  // namespace asterism::topology
