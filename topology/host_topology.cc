#include "topology/host_topology.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace asterism::topology {

std::string_view PathLevelName(PathLevel level) {
  constexpr std::array<std::string_view, 8> kNames = {"?",   "X",   "INTERNAL", "PIX",
                                                      "PXB", "PHB", "NODE",     "SYS"};
  return kNames[static_cast<size_t>(level)];
}

void HostTopology::Resize() {
  pairs.assign(gpus.size() * gpus.size(), {});
  gpu_to_nic.assign(gpus.size() * nics.size(), PathLevel::kUnknown);
  for (size_t i = 0; i < gpus.size(); ++i) {
    pair(i, i).level = PathLevel::kSelf;
  }
}

std::vector<std::vector<size_t>> NvlinkIslands(const HostTopology& host) {
  const size_t count = host.gpus.size();
  std::vector<size_t> island(count, count);
  std::vector<std::vector<size_t>> islands;
  for (size_t start = 0; start < count; ++start) {
    if (island[start] != count) {
      continue;
    }
    std::vector<size_t> members = {start};
    island[start] = islands.size();
    for (size_t next = 0; next < members.size(); ++next) {
      for (size_t other = 0; other < count; ++other) {
        const bool linked =
            host.pair(members[next], other).links > 0 || host.pair(other, members[next]).links > 0;
        if (linked && island[other] == count) {
          island[other] = islands.size();
          members.push_back(other);
        }
      }
    }
    std::sort(members.begin(), members.end());
    islands.push_back(std::move(members));
  }
  return islands;
}

NearestNics NearestNicsOf(const HostTopology& host, size_t gpu) {
  NearestNics found;
  for (size_t nic = 0; nic < host.nics.size(); ++nic) {
    const PathLevel level = host.nic_level(gpu, nic);
    if (level == PathLevel::kUnknown) {
      continue;
    }
    if (found.nics.empty() || level < found.level) {
      found.level = level;
      found.nics.clear();
    }
    if (level == found.level) {
      found.nics.push_back(nic);
    }
  }
  return found;
}

}  // namespace asterism::topology
