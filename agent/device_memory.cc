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
  const auto take = [&](const char* field, bool offered) {
    const nlohmann::json devices = file.value(field, nlohmann::json::object());
    for (const auto& [resource, ids] : devices.items()) {
      for (const nlohmann::json& id : ids) {
        if (id.is_string() && known_[resource].size() < kDevicesMax) {
          known_[resource][id.get<std::string>()] = offered;
        }
      }
    }
  };
  take("offered", true);
  take("notOffered", false);
  for (const auto& [resource, ids] : known_) {
    for (const auto& [id, offered] : ids) {
      last_[resource].devices.push_back({.resource = resource, .id = id, .offered = offered});
    }
  }
}

void DeviceMemory::Write() const {
  if (path_.empty()) {
    return;
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  nlohmann::json file = {{"bootId", boot_id_},
                         {"offered", nlohmann::json::object()},
                         {"notOffered", nlohmann::json::object()}};
  for (const auto& [resource, ids] : known_) {
    for (const auto& [id, offered] : ids) {
      file[offered ? "offered" : "notOffered"][resource].push_back(id);
    }
  }
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
  std::map<std::string, std::map<std::string, HeldDevice>> by_resource;
  bool changed = false;
  for (const HeldDevice& device : devices) {
    Known& ids = known_[device.resource];
    changed |= ids.size() < kDevicesMax && ids.emplace(device.id, device.offered).second;
    by_resource[device.resource][device.id] = device;
  }
  std::vector<HeldDevice> complete;
  for (auto& [resource, ids] : known_) {
    std::map<std::string, HeldDevice>& told = by_resource[resource];
    const bool silent =
        std::ranges::none_of(told, [](const auto& entry) { return entry.second.offered; });
    const auto last = last_.find(resource);
    if (silent && last != last_.end()) {
      last->second.when = last->second.when.value_or(now);
      if (now - *last->second.when < kSilence) {
        for (HeldDevice device : last->second.devices) {
          if (const auto held = told.find(device.id); held != told.end()) {
            device = held->second;  // who holds it is told all the same
            device.offered = ids[device.id];
          }
          complete.push_back(std::move(device));
        }
        continue;
      }
    }
    for (auto& [id, offered] : ids) {
      const HeldDevice& device =
          told.try_emplace(id, HeldDevice{.resource = resource, .id = id}).first->second;
      changed |= std::exchange(offered, device.offered) != device.offered;
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
  if (changed) {
    Write();
  }
  return complete;
}

}  // namespace asterism::agent
