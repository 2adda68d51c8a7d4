#include "test/rig/gpu_fixture/gpu_fixture.h"

#include <algorithm>
#include <cstdio>

#include "absl/status/status.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"

namespace asterism::testing {
namespace {

using Json = nlohmann::json;

std::vector<size_t> NumbersOf(const Json& value) {
  return value.is_array() ? value.get<std::vector<size_t>>()
                          : std::vector<size_t>{value.get<size_t>()};
}

template <typename Number>
Number Named(const std::map<std::string, Number>& names, const std::string& name) {
  const auto found = names.find(name);
  if (found == names.end()) {
    throw std::runtime_error("\"" + name + "\" is not known here");
  }
  return found->second;
}

FixtureFabric FabricOf(const Json& json) {
  FixtureFabric fabric;
  std::string digits = json.value("cluster_uuid", std::string(32, '0'));
  std::erase(digits, '-');
  for (size_t i = 0; i < fabric.cluster_uuid.size(); ++i) {
    fabric.cluster_uuid[i] = static_cast<uint8_t>(std::stoul(digits.substr(2 * i, 2), nullptr, 16));
  }
  fabric.clique_id = json.value("clique_id", 0U);
  fabric.state = Named<uint8_t>(
      {{"not_supported", 0}, {"not_started", 1}, {"in_progress", 2}, {"completed", 3}},
      json.value("state", "completed"));
  fabric.status = json.value("status", 0);
  fabric.health_mask = json.value("health_mask", 0U);
  fabric.health_summary = json.value("health_summary", uint8_t{0});
  return fabric;
}

void TakeGpus(const Json& file, GpuFixture& fixture) {
  for (const Json& json : file.at("gpus")) {
    FixtureGpu& gpu = fixture.gpus.emplace_back();
    gpu.uuid = json.at("uuid").get<std::string>();
    gpu.pci = json.value("pci", "");
    gpu.product = json.value("product", "");
    const std::string sm = json.value("sm", "0.0");
    if (std::sscanf(sm.c_str(), "%d.%d", &gpu.major, &gpu.minor_version) != 2) {
      throw std::runtime_error("sm is not like \"9.0\"");
    }
    gpu.memory_bytes = json.value("memory_bytes", uint64_t{0});
    gpu.numa = json.value("numa", -1);
    gpu.minor = json.value("minor", static_cast<int>(fixture.gpus.size()) - 1);
    gpu.module_id = json.value("module_id", 0U);
    gpu.mig = json.value("mig", false);
    gpu.healthy = json.value("health", "Healthy") == "Healthy";
    if (json.contains("fabric")) {
      gpu.fabric = FabricOf(json.at("fabric"));
    } else if (file.contains("fabric")) {
      gpu.fabric = FabricOf(file.at("fabric"));
    }
  }
}

void TakeLinks(const Json& file, GpuFixture& fixture) {
  for (const Json& json : file.value("nvlinks", Json::array())) {
    for (const size_t gpu : NumbersOf(json.at("gpu"))) {
      for (const size_t number : NumbersOf(json.at("link"))) {
        FixtureLink& link = fixture.gpus.at(gpu).links[static_cast<uint32_t>(number)];
        link.active = json.value("state", "active") == "active";
        link.remote = Named<uint32_t>({{"gpu", 0}, {"cpu", 1}, {"switch", 2}, {"unknown", 255}},
                                      json.value("remote", "unknown"));
        const Json pci = json.value("remote_pci", Json(""));
        link.remote_pci = pci.is_array() ? pci.at(number % pci.size()).get<std::string>()
                                         : pci.get<std::string>();
        link.mb_per_second = json.value("mb_per_second", 0U);
      }
    }
  }
}

void TakePairs(const Json& file, GpuFixture& fixture) {
  for (const Json& json : file.value("pairs", Json::array())) {
    const std::vector<size_t> gpus = NumbersOf(json.at("gpus"));
    for (const size_t first : gpus) {
      for (const size_t second : gpus) {
        if (first < second) {
          fixture.pairs[{first, second}] = {
              .distance = Named<uint32_t>({{"INTERNAL", 0},
                                           {"PIX", 10},
                                           {"PXB", 20},
                                           {"PHB", 30},
                                           {"NODE", 40},
                                           {"SYS", 50}},
                                          json.value("distance", "SYS")),
              .p2p = Named<uint32_t>(
                  {{"OK", 0}, {"CNS", 1}, {"GNS", 2}, {"TNS", 3}, {"DR", 4}, {"NS", 5}, {"U", 6}},
                  json.value("p2p", "OK"))};
        }
      }
    }
  }
}

void TakeFaults(const Json& json, FixtureFaults& faults) {
  faults.lost = json.value("lost", std::set<size_t>());
  if (json.contains("visible")) {
    faults.visible = json.at("visible").get<std::set<size_t>>();
  }
  faults.hang = json.value("hang", std::set<std::string>());
  faults.not_supported = json.value("not_supported", std::set<std::string>());
  faults.start = json.value("start", 0);
  faults.fabric_version = json.value("fabric_version", 3U);
  faults.memory_version = json.value("memory_version", 2U);
  faults.platform_version = json.value("platform_version", 2U);
  faults.in_progress_calls = json.value("in_progress_calls", 0);
}

}  // namespace

absl::StatusOr<GpuFixture> ReadGpuFixture(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, base::ReadSmallFile(path));
  try {
    const Json file = Json::parse(text);
    GpuFixture fixture;
    fixture.driver = file.value("system", Json::object()).value("driver", "");
    TakeGpus(file, fixture);
    TakeLinks(file, fixture);
    TakePairs(file, fixture);
    if (file.contains("platform")) {
      const Json& platform = file.at("platform");
      fixture.platform = FixturePlatform{.chassis_serial = platform.value("chassis_serial", ""),
                                         .slot_number = platform.value("slot_number", uint8_t{0}),
                                         .tray_index = platform.value("tray_index", uint8_t{0}),
                                         .host_id = platform.value("host_id", uint8_t{0})};
    }
    TakeFaults(file.value("faults", Json::object()), fixture.faults);
    return fixture;
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(path + ": " + error.what());
  }
}

}  // namespace asterism::testing
