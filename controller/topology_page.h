// File: controller/topology_page.h
//
// The tree of levels with its GPUs as JSON: what `kubectl asterism topology` reads (/topologyz).
//
//   response.body = TopologyPage(*view, {.gpu_resources = {"nvidia.com/gpu"}, .leading = true});
//
// {"leading":true,"version":7,"levels":["node","supernode","cluster"],
//  "domains":[{"level":"node","name":"gpu-0000","parent":"s000","nodes":1,"unusableNodes":0,
//              "gpus":{"total":8,"free":8,"held":0,"spare":0,"faulty":0},
//              "jobs":["research/llama"],"jobCount":1}]}
//
// Every domain of every level, inner to outer, in topology order; "parent" is empty at the last
// level. With a topology also "origins" ({"supernode": {"nvlink": 12}}: nodes by who says where
// they are) and, of domains between the nodes and the cluster, "source": who says so of most of
// their nodes; of nodes "health" where it is measured. A GPU counts once: total = free + held +
// spare + faulty, see domain_use.h. "jobs" are the first
// kTopologyJobsMax names, sorted, of the gangs with a block in the domain, and "jobCount" is how
// many there are.
//
// Thread-safety: pure. Cost: O((nodes + blocks) x levels): about 1 ms and 260 KB at 1,280 nodes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "scheduler/ledger.h"
#include "topology/topology_keeper.h"

namespace asterism::controller {

inline constexpr size_t kTopologyJobsMax = 10;

struct TopologyPageOptions {
  std::vector<std::string> gpu_resources;  // extended resources that count GPUs
  bool leading = false;
  const topology::TopologySnapshot* topology = nullptr;
};

std::string TopologyPage(const scheduler::LedgerView& view, const TopologyPageOptions& options);

}  // namespace asterism::controller
