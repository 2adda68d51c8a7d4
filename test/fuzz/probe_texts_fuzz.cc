// Texts that probes of the agent read: lldpctl, metadata services, topology files, lines of sysfs.
#include <cstdint>
#include <string_view>

#include "agent/probe/ascend_probe.h"
#include "agent/probe/cloud_probe.h"
#include "agent/probe/lldp_probe.h"
#include "agent/probe/pci_overlay.h"
#include "agent/probe/pci_tree.h"
#include "agent/probe/rdma_probe.h"
#include "agent/probe/sysfs_text.h"
#include "base/check.h"

namespace {

using namespace asterism::agent;  // NOLINT(google-build-using-namespace)

void ReadOverlay(std::string_view text) {
  const auto overlay = ParsePciOverlay(text);
  if (!overlay.ok()) {
    CHECK_THAT(!overlay.status().message().empty(), "an error without words");
    return;
  }
  PciTree tree;
  for (const auto& [address, place] : overlay->places) {
    CHECK_THAT(NormalPciAddress(address) == address, "an address in another form");
    CHECK_THAT(place.bridges.size() <= kOverlayDepthMax, "a chain without end");
    tree.devices.emplace(address, PciPlace{.host = "pci0000:00", .bridges = {address}});
    if (tree.devices.size() == 8) {
      break;
    }
  }
  tree.Apply(*overlay);
  for (const auto& [left, ignored] : tree.devices) {
    for (const auto& [right, also_ignored] : tree.devices) {
      CHECK_THAT(tree.Distance(left, right) == tree.Distance(right, left), "not symmetric");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (static_cast<uint8_t>(data[0] - '0') % 5) {
    case 0:
      if (const auto neighbors = ParseLldp(text); neighbors.ok()) {
        CHECK_THAT(static_cast<size_t>(neighbors->neighbors_size()) <= kNeighborsMax, "too many");
      }
      break;
    case 1:
      for (const auto& steps :
           {ParseGcpHostTopology(text), ParseGcpPhysicalHost(text), ParseOciTopology(text)}) {
        if (steps.ok()) {
          for (const auto& [name, value] : *steps) {
            CHECK_THAT(!value.empty() && PlaceValue(value) == value, "no place");
          }
        }
      }
      break;
    case 2:
      ReadOverlay(text);
      break;
    case 4:
      if (const auto npus = ParseNpuTopology(text); npus.ok()) {
        for (const auto& pair : npus->pairs()) {
          CHECK_THAT(pair.first() < pair.second() &&
                         pair.second() < static_cast<uint32_t>(npus->gpus_size()),
                     "a pair of devices that are not there");
        }
      }
      break;
    default:
      if (const auto address = NormalPciAddress(text)) {
        CHECK_THAT(NormalPciAddress(*address) == *address, "an address in another form");
      }
      PciPlaceOfPath(text);
      RdmaRate(text);
      RdmaGuid(text);
      NumberOf(text);
  }
  return 0;
}
