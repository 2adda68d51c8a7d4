#include "controller/relay_plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "base/check.h"

namespace asterism::controller {
namespace {

constexpr uint32_t kElsewhere = std::numeric_limits<uint32_t>::max();

uint32_t DistanceOf(uint32_t one, uint32_t other) {
  return one < other ? other - one : one - other;
}

// As many as are missing, each from the middle of its share of those that could.
std::vector<uint64_t> Appoint(std::span<const DirectAgent> agents, size_t missing) {
  std::vector<uint64_t> able;
  for (const DirectAgent& agent : agents) {
    if (agent.may_relay) {
      able.push_back(agent.stream);
    }
  }
  const size_t count = std::min(missing, able.size());
  std::vector<uint64_t> appointed;
  for (size_t i = 0; i < count; ++i) {
    appointed.push_back(able[(2 * i + 1) * able.size() / (2 * count)]);
  }
  return appointed;
}

KnownRelay* Nearest(std::span<KnownRelay> relays, uint32_t place, size_t members_max) {
  KnownRelay* nearest = nullptr;
  for (KnownRelay& relay : relays) {
    if (relay.ready && relay.members < members_max &&
        (nearest == nullptr ||
         DistanceOf(relay.at.place, place) < DistanceOf(nearest->at.place, place))) {
      nearest = &relay;
    }
  }
  return nearest;
}

void PlanDomain(std::span<const DirectAgent> agents, std::span<KnownRelay> relays,
                size_t members_max, RelayPlan& plan) {
  size_t nodes = agents.size() + relays.size();
  for (const KnownRelay& relay : relays) {
    nodes += relay.members;
  }
  const size_t wanted = nodes < 2 ? 0 : (nodes + members_max) / (members_max + 1);
  std::vector<uint64_t> appointed;
  if (wanted > relays.size()) {
    appointed = Appoint(agents, wanted - relays.size());
  }
  for (const DirectAgent& agent : agents) {
    if (!agent.may_join || std::ranges::find(appointed, agent.stream) != appointed.end()) {
      continue;
    }
    if (KnownRelay* const relay = Nearest(relays, agent.at.place, members_max)) {
      ++relay->members;
      plan.offers.push_back({.agent = agent.stream, .relay = relay->stream});
    }
  }
  plan.appointed.insert(plan.appointed.end(), appointed.begin(), appointed.end());
}

template <typename T>
void SortByPlace(std::vector<T>& items) {
  std::ranges::sort(items, {}, [](const T& item) { return std::pair(item.at, item.stream); });
}

// Those of the domain at the front, which go.
template <typename T>
std::span<T> TakeDomain(std::span<T>& items, uint32_t domain) {
  size_t count = 0;
  while (count < items.size() && items[count].at.domain == domain) {
    ++count;
  }
  const std::span<T> taken = items.first(count);
  items = items.subspan(count);
  return taken;
}

}  // namespace

RelayPlan PlanRelays(std::vector<DirectAgent> agents, std::vector<KnownRelay> relays,
                     size_t members_max) {
  CHECK_THAT(members_max > 0, "a relay without members is none");
  SortByPlace(agents);
  SortByPlace(relays);
  std::span<DirectAgent> agents_left(agents);
  std::span<KnownRelay> relays_left(relays);
  RelayPlan plan;
  while (!agents_left.empty()) {
    const uint32_t domain = agents_left.front().at.domain;
    while (!relays_left.empty() && relays_left.front().at.domain < domain) {
      relays_left = relays_left.subspan(1);
    }
    const std::span<DirectAgent> agents_here = TakeDomain(agents_left, domain);
    PlanDomain(agents_here, TakeDomain(relays_left, domain), members_max, plan);
  }
  return plan;
}

size_t RelayLevel(const topology::Cluster& cluster, std::string_view name, size_t nodes_min) {
  if (const std::optional<size_t> named = cluster.FindLevel(name); named.has_value()) {
    return *named;
  }
  for (size_t level = 1; level < cluster.level_count(); ++level) {
    if (cluster.node_count() >= nodes_min * cluster.domain_count(level)) {
      return level;
    }
  }
  return cluster.level_count() - 1;
}

RelayPlace PlaceOf(const topology::Cluster& cluster, size_t level, std::string_view node,
                   uint32_t otherwise) {
  const topology::NodeId id = cluster.FindNode(node);
  if (!id.valid()) {
    return {.domain = kElsewhere, .place = otherwise};
  }
  if (level == 0) {
    return {.domain = kElsewhere, .place = static_cast<uint32_t>(id.index())};
  }
  const topology::DomainId domain = cluster.DomainOf(level, id);
  if (!cluster.named(level, domain)) {
    return {.domain = kElsewhere, .place = otherwise};
  }
  return {.domain = static_cast<uint32_t>(domain.index()),
          .place = static_cast<uint32_t>(id.index())};
}

}  // namespace asterism::controller
