#include "controller/measured_node.h"

#include <algorithm>
#include <set>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::controller {
namespace {

using ::testing::HasSubstr;
using topology::FindingKind;
using topology::NodeHealth;
using Taken = MeasuredNode::Taken;

// Eight GPUs with 18 links each, of which those are down.
v1::MeasuredGpus Board(const std::set<std::pair<int, int>>& down = {}) {
  v1::MeasuredGpus part;
  for (int gpu = 0; gpu < 8; ++gpu) {
    v1::MeasuredGpu& added = *part.add_gpus();
    added.set_uuid(fmt::format("GPU-{}", gpu));
    added.set_pci_address(fmt::format("0000:{:02x}:00.0", 0x1b + gpu));
    added.set_product("NVIDIA H100 80GB HBM3");
    for (int link = 0; link < 18; ++link) {
      v1::MeasuredLink& wire = *added.add_links();
      wire.set_number(static_cast<uint32_t>(link));
      wire.set_up(!down.contains({gpu, link}));
      wire.set_remote(v1::MeasuredLink::REMOTE_SWITCH);
    }
  }
  return part;
}

v1::NodeMeasurement Full(uint64_t generation) {
  v1::NodeMeasurement measurement;
  measurement.set_generation(generation);
  measurement.set_full(true);
  *measurement.mutable_gpus() = Board();
  v1::MeasuredNvlinkDomain& domain = *measurement.mutable_nvlink_domain();
  domain.set_state(v1::MeasuredNvlinkDomain::MEMBER);
  domain.set_cluster_uuid("4A1E7D02-0000-4000-8000-000000000001");
  domain.set_clique_id(3);
  domain.set_health(v1::MeasuredNvlinkDomain::HEALTHY);
  v1::MeasuredNic& nic = *measurement.mutable_nics()->add_nics();
  nic.set_device("mlx5_0");
  nic.set_node_guid(0xb83fd2025f0f27a0);
  nic.add_gpu_distances(v1::PCI_PXB);
  v1::MeasuredPort& port = *nic.add_ports();
  port.set_guid(0xb83fd2025f0f27a1);
  port.set_active(true);
  return measurement;
}

v1::NodeMeasurement Delta(uint64_t generation) {
  v1::NodeMeasurement measurement;
  measurement.set_generation(generation);
  return measurement;
}

bool Finds(const MeasuredNode& node, FindingKind kind) {
  return std::any_of(node.report().findings.begin(), node.report().findings.end(),
                     [kind](const topology::Finding& finding) { return finding.kind == kind; });
}

TEST(MeasuredNode, IsTheNodeOfTheStreamWithWhatWasMeasured) {
  MeasuredNode node("gpu-7", "boot");
  ASSERT_EQ(*node.Take(Full(1)), Taken::kNews);
  const topology::NodeReport& report = node.report();
  EXPECT_EQ(report.node, "gpu-7");
  EXPECT_EQ(report.boot_id, "boot");
  EXPECT_EQ(report.gpu_count, 8U);
  EXPECT_EQ(report.good_links, 144U);
  EXPECT_EQ(report.bad_links, 0U);
  EXPECT_EQ(report.domain_state, topology::DomainState::kMember);
  EXPECT_EQ(report.nvlink_domain, "4a1e7d02-0000-4000-8000-000000000001.3");
  EXPECT_EQ(report.health, NodeHealth::kHealthy);
  ASSERT_EQ(report.nics.size(), 1U);
  EXPECT_EQ(report.nics[0].node_guid, 0xb83fd2025f0f27a0U);
  EXPECT_TRUE(report.nics[0].compute);
  EXPECT_FALSE(Finds(node, FindingKind::kNvlinkLinkDown));
}

TEST(MeasuredNode, APartReplacesThePartBeforeAndNoOther) {
  MeasuredNode node("gpu-7", "boot");
  ASSERT_EQ(*node.Take(Full(1)), Taken::kNews);
  v1::NodeMeasurement delta = Delta(2);
  *delta.mutable_gpus() = Board({{2, 4}, {2, 5}});
  ASSERT_EQ(*node.Take(delta), Taken::kNews);
  EXPECT_EQ(node.report().bad_links, 2U);
  EXPECT_EQ(node.report().nics.size(), 1U);
  EXPECT_EQ(node.report().domain_state, topology::DomainState::kMember);
  EXPECT_TRUE(Finds(node, FindingKind::kNvlinkLinkDown));
  v1::NodeMeasurement domain = Delta(3);
  domain.mutable_nvlink_domain()->set_state(v1::MeasuredNvlinkDomain::NONE);
  ASSERT_EQ(*node.Take(domain), Taken::kNews);
  EXPECT_EQ(node.report().domain_state, topology::DomainState::kNone);
  EXPECT_EQ(node.report().bad_links, 2U);
}

TEST(MeasuredNode, ALostDeltaWantsAllParts) {
  MeasuredNode node("gpu-7", "boot");
  EXPECT_EQ(*node.Take(Delta(1)), Taken::kLost) << "nothing came before it";
  ASSERT_EQ(*node.Take(Full(4)), Taken::kNews);
  EXPECT_EQ(*node.Take(Delta(6)), Taken::kLost);
  EXPECT_EQ(*node.Take(Delta(7)), Taken::kLost) << "until all parts have come";
  v1::NodeMeasurement again = Full(7);
  *again.mutable_gpus() = Board({{0, 0}});
  EXPECT_EQ(*node.Take(again), Taken::kNews);
  EXPECT_EQ(*node.Take(Delta(8)), Taken::kNews);
}

TEST(MeasuredNode, AnAgentThatStartsAgainMayCountAnew) {
  MeasuredNode node("gpu-7", "boot");
  ASSERT_EQ(*node.Take(Full(90)), Taken::kNews);
  node.ExpectAll();
  EXPECT_EQ(*node.Take(Delta(91)), Taken::kLost);
  EXPECT_EQ(*node.Take(Full(1)), Taken::kSame);
  v1::NodeMeasurement delta = Delta(2);
  *delta.mutable_gpus() = Board({{1, 1}});
  EXPECT_EQ(*node.Take(delta), Taken::kNews);
}

TEST(MeasuredNode, AProbeThatCannotTellLeavesWhatWasKnown) {
  MeasuredNode node("gpu-7", "boot");
  ASSERT_EQ(*node.Take(Full(1)), Taken::kNews);
  v1::NodeMeasurement full;
  full.set_generation(2);
  full.set_full(true);
  v1::ProbeOutcome& probe = *full.add_probes();
  probe.set_name("nvml");
  probe.set_problem("nvmlInit: the library is not there");
  ASSERT_EQ(*node.Take(full), Taken::kNews);
  EXPECT_EQ(node.report().gpu_count, 8U);
  EXPECT_TRUE(Finds(node, FindingKind::kStale));
}

TEST(MeasuredNode, HealthIsThatOfTheDomainAndOfTheGpus) {
  MeasuredNode node("gpu-7", "boot");
  v1::NodeMeasurement measurement = Full(1);
  measurement.mutable_nvlink_domain()->set_health(v1::MeasuredNvlinkDomain::LIMITED);
  ASSERT_TRUE(node.Take(measurement).ok());
  EXPECT_EQ(node.report().health, NodeHealth::kDegraded);
  measurement.mutable_nvlink_domain()->set_health(v1::MeasuredNvlinkDomain::UNHEALTHY);
  measurement.mutable_nvlink_domain()->add_faults("route unhealthy");
  ASSERT_TRUE(node.Take(measurement).ok());
  EXPECT_EQ(node.report().health, NodeHealth::kUnhealthy);
  EXPECT_TRUE(Finds(node, FindingKind::kFabricUnhealthy));
  measurement = Full(2);
  measurement.mutable_gpus()->mutable_gpus(5)->set_lost(true);
  ASSERT_TRUE(node.Take(measurement).ok());
  EXPECT_EQ(node.report().health, NodeHealth::kUnhealthy);
  EXPECT_EQ(node.report().lost_gpus, 1U);
  EXPECT_EQ(node.report().gpu_count, 8U) << "capacity is kubelet's word";
}

TEST(MeasuredNode, WhatIsBeyondItsBoundsIsRefusedWithTheField) {
  struct Case {
    std::function<void(v1::NodeMeasurement&)> spoil;
    const char* field;
  };
  const Case cases[] = {
      {[](auto& m) {
         for (int i = 0; i < 200; ++i)
           m.mutable_gpus()->add_gpus();
       },
       "measurement.gpus.gpus: 208 entries, more than 128"},
      {[](auto& m) {
         for (int i = 0; i < 60; ++i)
           m.mutable_gpus()->mutable_gpus(3)->add_links();
       },
       "measurement.gpus.gpus[3].links: 78 entries, more than 64"},
      {[](auto& m) { m.mutable_gpus()->add_pairs()->set_first(1); },
       "measurement.gpus.pairs[0]: 1 and 0 are no two of 8 GPUs in order"},
      {[](auto& m) {
         v1::GpuPair& pair = *m.mutable_gpus()->add_pairs();
         pair.set_first(1);
         pair.set_second(8);
       },
       "measurement.gpus.pairs[0]: 1 and 8"},
      {[](auto& m) { m.mutable_nvlink_domain()->set_cluster_uuid("a b"); },
       "measurement.nvlink_domain.cluster_uuid"},
      {[](auto& m) { m.mutable_nvlink_domain()->set_cluster_uuid(std::string(99, 'a')); },
       "measurement.nvlink_domain.cluster_uuid"},
      {[](auto& m) {
         for (int i = 0; i < 65; ++i)
           m.add_probes();
       },
       "measurement.probes: 65 entries"},
      {[](auto& m) {
         for (int i = 0; i < 300; ++i)
           m.mutable_nics()->add_nics();
       },
       "measurement.nics.nics: 301 entries"},
  };
  for (const Case& each : cases) {
    MeasuredNode node("gpu-7", "boot");
    ASSERT_EQ(*node.Take(Full(1)), Taken::kNews);
    v1::NodeMeasurement spoilt = Full(2);
    each.spoil(spoilt);
    const auto taken = node.Take(spoilt);
    EXPECT_EQ(taken.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(taken.status().message()), HasSubstr(each.field));
    EXPECT_EQ(node.report().gpu_count, 8U) << "nothing was taken";
  }
}

}  // namespace
}  // namespace asterism::controller
