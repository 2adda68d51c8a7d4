#include "agent/health_file.h"

#include <cstdio>
#include <fstream>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace asterism::agent {

absl::Status WriteHealth(const std::string& path, const std::vector<std::string>& complaints,
                         base::SteadyTime now) {
  const nlohmann::json file = {{"steadyNanoseconds", now.nanos}, {"complaints", complaints}};
  const std::string unfinished = path + ".new";
  std::ofstream out(unfinished, std::ios::trunc);
  // A complaint can quote anything.
  out << file.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  out.close();
  if (!out || std::rename(unfinished.c_str(), path.c_str()) != 0) {
    return absl::UnavailableError(
        fmt::format("--health-file: {} cannot be written: give it a folder of its own", path));
  }
  return absl::OkStatus();
}

absl::Status CheckHealth(const std::string& path, HealthQuestion question, base::SteadyTime now) {
  ASSIGN_OR_RETURN(const std::string text, base::ReadSmallFile(path));
  const nlohmann::json file = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!file.is_object() || !file.contains("steadyNanoseconds") ||
      !file["steadyNanoseconds"].is_number_integer() || !file.contains("complaints") ||
      !file["complaints"].is_array()) {
    return absl::FailedPreconditionError(fmt::format("{}: is no health file", path));
  }
  const absl::Duration age = now - base::SteadyTime{file["steadyNanoseconds"].get<int64_t>()};
  if (age > kHealthAgeMax || age < -absl::Seconds(1)) {
    return absl::UnavailableError(
        fmt::format("the agent has not moved for {}", absl::FormatDuration(age)));
  }
  if (question == HealthQuestion::kLive || file["complaints"].empty()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrJoin(file["complaints"], "; ", [](std::string* out, const nlohmann::json& each) {
        out->append(each.is_string() ? each.get<std::string>() : each.dump());
      }));
}

}  // namespace asterism::agent
