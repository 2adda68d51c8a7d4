// Who becomes a relay, and whose.
#include "controller/relay_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/rng.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Streams are numbered from 1; the place is the number.
std::vector<DirectAgent> AgentsOf(uint32_t domain, uint64_t first, size_t count) {
  std::vector<DirectAgent> agents;
  for (uint64_t stream = first; stream < first + count; ++stream) {
    agents.push_back({.at = {domain, static_cast<uint32_t>(stream)},
                      .stream = stream,
                      .may_relay = true,
                      .may_join = true});
  }
  return agents;
}

KnownRelay RelayAt(uint32_t domain, uint64_t stream, size_t members, bool ready = true) {
  return {.at = {domain, static_cast<uint32_t>(stream)},
          .stream = stream,
          .members = members,
          .ready = ready};
}

TEST(RelayPlan, OneAloneNeedsNone) {
  const RelayPlan plan = PlanRelays(AgentsOf(0, 1, 1), {}, 63);
  EXPECT_THAT(plan.appointed, IsEmpty());
  EXPECT_THAT(plan.offers, IsEmpty());
}

TEST(RelayPlan, ADomainHasOneAndOffersComeWhenItListens) {
  RelayPlan plan = PlanRelays(AgentsOf(0, 1, 5), {}, 63);
  EXPECT_THAT(plan.appointed, ElementsAre(3U));
  EXPECT_THAT(plan.offers, IsEmpty());
  plan = PlanRelays(AgentsOf(0, 4, 2), {RelayAt(0, 3, 0, /*ready=*/false)}, 63);
  EXPECT_THAT(plan.appointed, IsEmpty());
  EXPECT_THAT(plan.offers, IsEmpty());
  plan = PlanRelays(AgentsOf(0, 4, 2), {RelayAt(0, 3, 0)}, 63);
  EXPECT_THAT(plan.offers, ElementsAre(RelayPlan::Offer{4, 3}, RelayPlan::Offer{5, 3}));
}

TEST(RelayPlan, NoMoreThanAreNeededWhenAllGroupsAreFull) {
  EXPECT_EQ(PlanRelays(AgentsOf(0, 1, 64), {}, 63).appointed.size(), 1U);
  EXPECT_EQ(PlanRelays(AgentsOf(0, 1, 65), {}, 63).appointed.size(), 2U);
  EXPECT_EQ(PlanRelays(AgentsOf(0, 1, 12'800), {}, 63).appointed.size(), 200U);
}

TEST(RelayPlan, NewOnesAreSpreadOverThePlaces) {
  EXPECT_THAT(PlanRelays(AgentsOf(0, 1, 128), {}, 63).appointed, ElementsAre(33U, 97U));
}

TEST(RelayPlan, ARelayOfAnotherDomainIsNone) {
  const RelayPlan plan = PlanRelays(AgentsOf(1, 1, 2), {RelayAt(0, 9, 0), RelayAt(2, 8, 0)}, 63);
  EXPECT_THAT(plan.appointed, ElementsAre(2U));
  EXPECT_THAT(plan.offers, IsEmpty());
}

TEST(RelayPlan, TheNearestWithRoomIsOffered) {
  const RelayPlan plan =
      PlanRelays(AgentsOf(0, 10, 2), {RelayAt(0, 9, 2), RelayAt(0, 20, 0)}, /*members_max=*/3);
  EXPECT_THAT(plan.offers, ElementsAre(RelayPlan::Offer{10, 9}, RelayPlan::Offer{11, 20}));
}

TEST(RelayPlan, WhoMayNotIsNeither) {
  std::vector<DirectAgent> agents = AgentsOf(0, 1, 3);
  agents[1].may_relay = false;
  EXPECT_THAT(PlanRelays(agents, {}, 63).appointed, ElementsAre(3U));
  agents[1].may_join = false;
  EXPECT_THAT(PlanRelays(agents, {RelayAt(0, 9, 0)}, 63).offers,
              ElementsAre(RelayPlan::Offer{1, 9}, RelayPlan::Offer{3, 9}));
}

// What a controller would go through: agents come, relays die, all in any order.
TEST(RelayPlan, HoldsItsRulesWhateverComesAndGoes) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    base::Rng rng(seed);
    const size_t members_max = 1 + rng.Below(6);
    std::map<uint64_t, uint32_t> domain_of;          // of every agent
    std::map<uint64_t, std::set<uint64_t>> members;  // of each relay
    std::set<uint64_t> direct;
    uint64_t last = 0;
    for (int step = 0; step < 60; ++step) {
      if (rng.Chance(0.7) || members.empty()) {
        domain_of[++last] = static_cast<uint32_t>(rng.Below(3));
        direct.insert(last);
      } else {  // a relay dies
        const auto dying =
            std::next(members.begin(), static_cast<int64_t>(rng.Below(members.size())));
        direct.insert(dying->second.begin(), dying->second.end());
        domain_of.erase(dying->first);
        members.erase(dying);
      }
      for (int round = 0; round < 2; ++round) {  // those that were appointed listen in the second
        std::vector<DirectAgent> agents;
        for (const uint64_t stream : direct) {
          agents.push_back({.at = {domain_of.at(stream), static_cast<uint32_t>(stream)},
                            .stream = stream,
                            .may_relay = true,
                            .may_join = true});
        }
        std::vector<KnownRelay> relays;
        for (const auto& [stream, own] : members) {
          relays.push_back(RelayAt(domain_of.at(stream), stream, own.size()));
        }
        const RelayPlan plan = PlanRelays(agents, relays, members_max);
        rng.Shuffle(agents);
        rng.Shuffle(relays);
        const RelayPlan shuffled = PlanRelays(agents, relays, members_max);
        ASSERT_EQ(plan.appointed, shuffled.appointed);
        ASSERT_EQ(plan.offers, shuffled.offers);
        for (const uint64_t stream : plan.appointed) {
          ASSERT_EQ(direct.erase(stream), 1U);
          members[stream];
        }
        for (const RelayPlan::Offer& offer : plan.offers) {
          ASSERT_EQ(direct.erase(offer.agent), 1U);
          ASSERT_EQ(domain_of.at(offer.agent), domain_of.at(offer.relay));
          members.at(offer.relay).insert(offer.agent);
          ASSERT_LE(members.at(offer.relay).size(), members_max);
        }
      }
      // All are served: who is left alone in its domain has nobody to speak through.
      for (const uint64_t stream : direct) {
        ASSERT_EQ(std::ranges::count(domain_of, domain_of.at(stream),
                                     [](const auto& entry) { return entry.second; }),
                  1);
      }
    }
  }
}

topology::Cluster ClusterOf(size_t nodes, size_t nodes_a_supernode) {
  std::vector<topology::NodeFacts> facts;
  for (size_t i = 0; i < nodes; ++i) {
    facts.push_back({.name = fmt::format("node-{:03}", i),
                     .domains = {fmt::format("sn-{:03}", i / nodes_a_supernode)}});
  }
  facts.push_back({.name = "stray", .domains = {""}});
  return *topology::BuildCluster({"node", "supernode", "cluster"}, std::move(facts));
}

TEST(RelayPlan, TheLevelIsTheInnermostWithLargeDomainsUnlessItIsNamed) {
  EXPECT_EQ(RelayLevel(ClusterOf(128, 4), "", 16), 2U);
  EXPECT_EQ(RelayLevel(ClusterOf(128, 4), "supernode", 16), 1U);
  EXPECT_EQ(RelayLevel(ClusterOf(256, 64), "", 16), 1U);
  EXPECT_EQ(RelayLevel(ClusterOf(3, 1), "", 16), 2U);
}

TEST(RelayPlan, WithoutALevelAboveTheNodeAllNodesAreTogether) {
  const topology::Cluster cluster =
      *topology::BuildCluster({"node"}, {{.name = "node-0"}, {.name = "node-1"}});
  EXPECT_EQ(RelayLevel(cluster, "", 16), 0U);
  EXPECT_EQ(PlaceOf(cluster, 0, "node-0", 77).domain, PlaceOf(cluster, 0, "node-1", 77).domain);
  EXPECT_NE(PlaceOf(cluster, 0, "node-0", 77).place, PlaceOf(cluster, 0, "node-1", 77).place);
}

TEST(RelayPlan, NodesThatNobodyKnowsTheDomainOfAreTogether) {
  const topology::Cluster cluster = ClusterOf(8, 4);
  const RelayPlace known = PlaceOf(cluster, 1, "node-005", 77);
  EXPECT_EQ(known.domain, PlaceOf(cluster, 1, "node-004", 77).domain);
  EXPECT_NE(known.domain, PlaceOf(cluster, 1, "node-003", 77).domain);
  EXPECT_EQ(PlaceOf(cluster, 1, "unheard-of", 77), PlaceOf(cluster, 1, "stray", 77));
  EXPECT_EQ(PlaceOf(cluster, 1, "stray", 77).place, 77U);
}

}  // namespace
}  // namespace asterism::controller
