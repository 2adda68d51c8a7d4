#include "agent/probe/nvml_fabric.h"

#include <algorithm>
#include <set>
#include <utility>

#include "fmt/format.h"

namespace asterism::agent {
namespace {

// Fields of the mask, two bits but for the configuration: 0 not supported, 1 true, 2 false.
constexpr uint32_t kShiftDegraded = 0;
constexpr uint32_t kShiftRecovery = 2;
constexpr uint32_t kShiftUnhealthy = 4;
constexpr uint32_t kShiftTimeout = 6;
constexpr uint32_t kShiftConfiguration = 8;
constexpr uint32_t kShiftPartition = 12;

uint32_t FieldOf(uint32_t mask, uint32_t shift, uint32_t width) {
  return mask >> shift & width;
}

// Of "incorrect configuration"; 0 not supported, 1 none.
constexpr std::array<const char*, 9> kConfigurationFaults = {"",
                                                             "",
                                                             "incorrect system GUID",
                                                             "incorrect chassis serial number",
                                                             "no partition",
                                                             "insufficient NVLinks",
                                                             "incompatible GPU firmware",
                                                             "invalid location",
                                                             "invalid state of the GPU"};

v1::MeasuredNvlinkDomain::Health HealthOf(const FabricFacts& gpu) {
  if (gpu.health_summary.value_or(nvml::kHealthNotSupported) != nvml::kHealthNotSupported) {
    switch (*gpu.health_summary) {
      case nvml::kHealthHealthy:
        return v1::MeasuredNvlinkDomain::HEALTHY;
      case nvml::kHealthUnhealthy:
        return v1::MeasuredNvlinkDomain::UNHEALTHY;
      case nvml::kHealthLimited:
        return v1::MeasuredNvlinkDomain::LIMITED;
      default:
        return v1::MeasuredNvlinkDomain::HEALTH_UNKNOWN;
    }
  }
  const uint32_t mask = gpu.health_mask.value_or(0);
  if (mask == 0) {
    return v1::MeasuredNvlinkDomain::HEALTH_UNKNOWN;
  }
  const bool broken = FieldOf(mask, kShiftUnhealthy, 3) == 1 ||
                      FieldOf(mask, kShiftTimeout, 3) == 1 ||
                      FieldOf(mask, kShiftConfiguration, 15) > 1;
  const bool limited =
      FieldOf(mask, kShiftDegraded, 3) == 1 || FieldOf(mask, kShiftRecovery, 3) == 1;
  return broken    ? v1::MeasuredNvlinkDomain::UNHEALTHY
         : limited ? v1::MeasuredNvlinkDomain::LIMITED
                   : v1::MeasuredNvlinkDomain::HEALTHY;
}

int SeverityOf(v1::MeasuredNvlinkDomain::Health health) {
  switch (health) {
    case v1::MeasuredNvlinkDomain::UNHEALTHY:
      return 3;
    case v1::MeasuredNvlinkDomain::LIMITED:
      return 2;
    case v1::MeasuredNvlinkDomain::HEALTH_UNKNOWN:
      return 1;
    default:
      return 0;
  }
}

std::string UuidText(const std::array<uint8_t, 16>& bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    text += i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

// The state of one GPU, and why it is unknown.
std::pair<v1::MeasuredNvlinkDomain::State, std::string> StateOf(const FabricFacts& gpu) {
  if (!gpu.answered) {
    return {v1::MeasuredNvlinkDomain::UNKNOWN, gpu.why};
  }
  if (gpu.state == nvml::kFabricNotSupported) {
    return {v1::MeasuredNvlinkDomain::NONE, ""};
  }
  if (gpu.state != nvml::kFabricCompleted) {
    return {v1::MeasuredNvlinkDomain::UNKNOWN,
            gpu.state == nvml::kFabricNotStarted   ? "registration with the fabric has not started"
            : gpu.state == nvml::kFabricInProgress ? "registration with the fabric is in progress"
                                                   : "the fabric is in a state without a name"};
  }
  if (gpu.status != nvml::kSuccess) {
    return {v1::MeasuredNvlinkDomain::UNKNOWN,
            fmt::format("registration with the fabric failed (code {})", gpu.status)};
  }
  const bool zero = std::ranges::all_of(gpu.cluster_uuid, [](uint8_t byte) { return byte == 0; });
  return {zero ? v1::MeasuredNvlinkDomain::NONE : v1::MeasuredNvlinkDomain::MEMBER, ""};
}

}  // namespace

bool FabricPending(const std::vector<FabricFacts>& gpus) {
  return std::ranges::any_of(gpus, [](const FabricFacts& gpu) {
    return gpu.answered &&
           (gpu.state == nvml::kFabricNotStarted || gpu.state == nvml::kFabricInProgress);
  });
}

std::vector<std::string> FabricFaults(uint32_t health_mask) {
  std::vector<std::string> faults;
  if (FieldOf(health_mask, kShiftDegraded, 3) == 1) {
    faults.emplace_back("degraded bandwidth");
  }
  if (FieldOf(health_mask, kShiftRecovery, 3) == 1) {
    faults.emplace_back("route recovery in progress");
  }
  if (FieldOf(health_mask, kShiftUnhealthy, 3) == 1) {
    faults.emplace_back("unhealthy route");
  }
  if (FieldOf(health_mask, kShiftTimeout, 3) == 1) {
    faults.emplace_back("recovery from an access timeout in progress");
  }
  const uint32_t configuration = FieldOf(health_mask, kShiftConfiguration, 15);
  if (configuration > 1) {
    faults.emplace_back(configuration < kConfigurationFaults.size()
                            ? kConfigurationFaults[configuration]
                            : "incorrect configuration");
  }
  if (FieldOf(health_mask, kShiftPartition, 3) == 2) {
    faults.emplace_back("no partition assigned");
  }
  return faults;
}

v1::MeasuredNvlinkDomain NvlinkDomainOf(const std::vector<FabricFacts>& gpus) {
  v1::MeasuredNvlinkDomain domain;
  std::set<std::string> faults;
  std::set<std::pair<std::string, uint32_t>> keys;
  bool unknown = gpus.empty();
  bool none = false;
  int severity = -1;
  for (const FabricFacts& gpu : gpus) {
    const auto [state, why] = StateOf(gpu);
    if (state == v1::MeasuredNvlinkDomain::UNKNOWN) {
      unknown = true;
      faults.insert(why);
      continue;
    }
    if (state == v1::MeasuredNvlinkDomain::NONE) {
      none = true;
      continue;
    }
    keys.emplace(UuidText(gpu.cluster_uuid), gpu.clique_id);
    if (gpu.health_mask.has_value()) {
      for (std::string& fault : FabricFaults(*gpu.health_mask)) {
        faults.insert(std::move(fault));
      }
    }
    const v1::MeasuredNvlinkDomain::Health health = HealthOf(gpu);
    if (SeverityOf(health) > severity) {
      severity = SeverityOf(health);
      domain.set_health(health);
    }
  }
  if (!unknown && keys.size() + (none ? 1 : 0) > 1) {
    unknown = true;
    faults.insert("the GPUs of this node disagree about their domain");
  }
  if (unknown) {
    domain.set_state(v1::MeasuredNvlinkDomain::UNKNOWN);
  } else if (none) {
    domain.set_state(v1::MeasuredNvlinkDomain::NONE);
  } else {
    domain.set_state(v1::MeasuredNvlinkDomain::MEMBER);
    domain.set_cluster_uuid(keys.begin()->first);
    domain.set_clique_id(keys.begin()->second);
  }
  for (const std::string& fault : faults) {
    domain.add_faults(fault);
  }
  return domain;
}

}  // namespace asterism::agent
