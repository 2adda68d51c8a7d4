#include "agent/device_memory.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/small_file.h"
#include "nlohmann/json.hpp"

namespace asterism::agent {
namespace {

constexpr size_t kDevicesMax = 1024;  // of one resource

}  // namespace

DeviceMemory::DeviceMemory(std::string path, std::string boot_id)
    : path_(std::move(path)), boot_id_(std::move(boot_id)) {
  Read();
}

void DeviceMemory::Read() {
  const absl::StatusOr<std::string> text = base::ReadSmallFile(path_);
  if (path_.empty() || !text.ok()) {
    return;
  }
  const nlohmann::json file = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!file.is_object() || file.value("bootId", nlohmann::json()) != boot_id_) {
    return;
  }
  const nlohmann::json devices = file.value("devices", nlohmann::json::object());
  for (const auto& [resource, ids] : devices.items()) {
    for (const nlohmann::json& id : ids) {
      if (id.is_string()) {
        known_[resource].insert(id.get<std::string>());
      }
    }
  }
}

void DeviceMemory::Write() const {
  if (path_.empty()) {
    return;
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  const nlohmann::json file = {{"bootId", boot_id_}, {"devices", known_}};
  const std::string unfinished = path_ + ".new";
  std::ofstream out(unfinished, std::ios::trunc);
  out << file.dump() << "\n";
  out.close();
  if (!out || std::rename(unfinished.c_str(), path_.c_str()) != 0) {
    base::LogWarning("device_memory_not_written",
                     {{"path", path_},
                      {"effect",
                       "after a restart of the agent, devices that are unhealthy by then "
                       "are not known"}});
  }
}

std::vector<HeldDevice> DeviceMemory::Complete(const std::vector<HeldDevice>& devices,
                                               base::SteadyTime now) {
  bool grown = false;
  std::map<std::string, std::map<std::string, HeldDevice>> by_resource;
  for (const HeldDevice& device : devices) {
    std::set<std::string>& ids = known_[device.resource];
    grown |= ids.size() < kDevicesMax && ids.insert(device.id).second;
    by_resource[device.resource][device.id] = device;
  }
  if (grown) {
    Write();
  }
  std::vector<HeldDevice> complete;
  for (const auto& [resource, ids] : known_) {
    std::map<std::string, HeldDevice>& told = by_resource[resource];
    const bool silent =
        std::ranges::none_of(told, [](const auto& entry) { return entry.second.offered; });
    const auto last = last_.find(resource);
    if (silent && last != last_.end() && now - last->second.when < kSilence) {
      complete.insert(complete.end(), last->second.devices.begin(), last->second.devices.end());
      continue;
    }
    for (const std::string& id : ids) {
      told.try_emplace(id, HeldDevice{.resource = resource, .id = id});
    }
    std::vector<HeldDevice> answer;
    for (const auto& [id, device] : told) {
      answer.push_back(device);
    }
    complete.insert(complete.end(), answer.begin(), answer.end());
    if (!silent) {
      last_[resource] = {.devices = std::move(answer), .when = now};
    }
  }
  return complete;
}

}  // namespace asterism::agent
