// File: controller/relay_plan.h
//
// Which agents are to be relays, and which agents are to speak through which of them.
//
//   RelayPlan plan = PlanRelays(agents, relays, /*members_max=*/63);
//   for (uint64_t stream : plan.appointed) ...      // that agent is to be a relay
//   for (const RelayPlan::Offer& offer : plan.offers) ...
//
// Each domain has relays of its own, no more than its agents need when all groups are full. A new
// relay is taken from the middle of those that have none; an agent gets the nearest relay, by
// places in the topology, that has room. Who has a relay keeps it: a relay that dies changes its
// own members' only, and a new node only itself. An agent alone in its domain needs none.
//
// Thread-safety: pure; the order of the lists does not matter. Cost: O(n log n), and agents times
// relays within a domain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "topology/cluster.h"

namespace asterism::controller {

// Where an agent's node stands. Near places are near nodes.
struct RelayPlace {
  uint32_t domain = 0;
  uint32_t place = 0;

  friend auto operator<=>(const RelayPlace&, const RelayPlace&) = default;
};

// An agent that speaks over a stream of its own and is no relay.
struct DirectAgent {
  RelayPlace at;
  uint64_t stream = 0;
  bool may_relay = false;
  bool may_join = false;
};

struct KnownRelay {
  RelayPlace at;
  uint64_t stream = 0;
  size_t members = 0;
  bool ready = false;  // it listens
};

struct RelayPlan {
  struct Offer {
    uint64_t agent = 0;
    uint64_t relay = 0;

    friend bool operator==(const Offer&, const Offer&) = default;
  };
  std::vector<uint64_t> appointed;
  std::vector<Offer> offers;
};

RelayPlan PlanRelays(std::vector<DirectAgent> agents, std::vector<KnownRelay> relays,
                     size_t members_max);

// The level whose domains have relays of their own: the one of that name; empty, or there is none:
// the innermost above the node whose domains have `nodes_min` nodes on average, else the last. 0:
// there is no level above the node.
size_t RelayLevel(const topology::Cluster& cluster, std::string_view name, size_t nodes_min);

// Nodes that the model does not know, or does not know the domain of, are together in one more
// domain, at the place `otherwise`. With level 0 all nodes are in that domain.
RelayPlace PlaceOf(const topology::Cluster& cluster, size_t level, std::string_view node,
                   uint32_t otherwise);

}  // namespace asterism::controller
