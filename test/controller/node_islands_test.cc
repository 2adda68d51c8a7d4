#include "controller/node_islands.h"

#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::controller {
namespace {

using scheduler::GpuIslands;
using ::testing::IsEmpty;

std::string Id(int gpu) {
  return fmt::format("GPU-{}", gpu);
}

// GPUs without links.
v1::MeasuredGpus UnlinkedGpus(int count) {
  v1::MeasuredGpus part;
  for (int i = 0; i < count; ++i) {
    v1::MeasuredGpu& gpu = *part.add_gpus();
    gpu.set_uuid(Id(i));
    gpu.set_pci_address(fmt::format("0000:{:02x}:00.0", i));
  }
  return part;
}

void Bridge(v1::MeasuredGpus& part, int left, int right, bool up = true) {
  for (const auto& [from, to] : {std::pair(left, right), std::pair(right, left)}) {
    v1::MeasuredLink& link = *part.mutable_gpus(from)->add_links();
    link.set_up(up);
    link.set_remote(v1::MeasuredLink::REMOTE_GPU);
    link.set_remote_pci_address(part.gpus(to).pci_address());
  }
}

std::vector<GpuDevice> Devices(int count, int per_numa_node) {
  std::vector<GpuDevice> devices;
  for (int i = 0; i < count; ++i) {
    devices.push_back({.id = Id(i), .numa_node = per_numa_node == 0 ? -1 : i / per_numa_node});
  }
  return devices;
}

TEST(NodeIslands, AreTheNumaNodesWhereNoNvlinkIsKnown) {
  NodeIslands islands;
  islands.TakeDevices(Devices(4, 2));
  EXPECT_EQ(islands.With({Id(3)}), (GpuIslands{.islands = {0b0011, 0b1100}, .taken = 0b1000}));
  islands.TakeGpus(UnlinkedGpus(4));
  EXPECT_EQ(islands.With({}), (GpuIslands{.islands = {0b0011, 0b1100}}));
}

TEST(NodeIslands, AreTheGpusOfABridge) {
  NodeIslands islands;
  v1::MeasuredGpus gpus = UnlinkedGpus(4);
  Bridge(gpus, 0, 2);
  Bridge(gpus, 1, 3, /*up=*/false);
  islands.TakeGpus(gpus);
  islands.TakeDevices(Devices(4, 2));
  EXPECT_THAT(islands.With({}).islands, ::testing::UnorderedElementsAre(0b0101, 0b0010, 0b1000))
      << "the second bridge is down";
}

TEST(NodeIslands, BehindASwitchAllAreAlike) {
  NodeIslands islands;
  v1::MeasuredGpus gpus = UnlinkedGpus(8);
  for (v1::MeasuredGpu& gpu : *gpus.mutable_gpus()) {
    v1::MeasuredLink& link = *gpu.add_links();
    link.set_up(true);
    link.set_remote(v1::MeasuredLink::REMOTE_SWITCH);
  }
  islands.TakeGpus(gpus);
  islands.TakeDevices(Devices(8, 4));
  EXPECT_THAT(islands.With({}).islands, IsEmpty());
}

TEST(NodeIslands, UnhealthyDevicesAreTaken) {
  NodeIslands islands;
  std::vector<GpuDevice> devices = Devices(4, 2);
  devices[1].unhealthy = true;
  islands.TakeDevices(devices);
  EXPECT_EQ(islands.With({Id(0)}).taken, 0b0011U);
}

TEST(NodeIslands, WhatIsNotKnownIsAlike) {
  NodeIslands islands;
  EXPECT_EQ(islands.With({}), GpuIslands()) << "nothing was told";
  islands.TakeDevices(Devices(4, 0));
  EXPECT_EQ(islands.With({}), GpuIslands()) << "no NUMA nodes";
  std::vector<GpuDevice> parts = Devices(4, 2);
  parts[3] = {.id = "MIG-1", .numa_node = -1};
  v1::MeasuredGpus gpus = UnlinkedGpus(4);
  Bridge(gpus, 0, 1);
  islands.TakeGpus(gpus);
  islands.TakeDevices(parts);
  EXPECT_EQ(islands.With({}), GpuIslands()) << "a part of a GPU is not measured";
  islands.TakeDevices(Devices(65, 1));
  EXPECT_EQ(islands.With({}), GpuIslands()) << "more than a mask holds";
}

// An agent that lies about its own node: no link leads out of the message.
TEST(NodeIslands, AddressesThatDoNotExistJoinNobody) {
  NodeIslands islands;
  v1::MeasuredGpus gpus = UnlinkedGpus(2);
  for (v1::MeasuredGpu& gpu : *gpus.mutable_gpus()) {
    gpu.set_pci_address("");
    v1::MeasuredLink& link = *gpu.add_links();
    link.set_up(true);
    link.set_remote(v1::MeasuredLink::REMOTE_GPU);
    link.set_remote_pci_address("nowhere");
  }
  islands.TakeGpus(gpus);
  islands.TakeDevices(Devices(2, 1));
  EXPECT_EQ(islands.With({}), (GpuIslands{.islands = {0b01, 0b10}})) << "by NUMA node";
}

}  // namespace
}  // namespace asterism::controller
