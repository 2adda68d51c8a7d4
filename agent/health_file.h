// File: agent/health_file.h
//
// How the agent tells kubelet's probes that it lives and what it lacks, without a port: it writes a
// small file again and again, and a second run of the program reads it.
//
//   WriteHealth(path, complaints, now);                  // on the core, every ten seconds
//   CheckHealth(path, HealthQuestion::kLive, now);       // asterism-agent --healthy=live
//
// The time in it is that of base::Clock::SteadyNow, which all processes of a boot share and no
// clock step changes.
//
// Thread-safety: pure, but for the file, which is replaced as a whole. Cost: one small file.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace asterism::agent {

// Six periods of ten seconds: a core that is so late hangs.
inline constexpr absl::Duration kHealthAgeMax = absl::Seconds(60);

enum class HealthQuestion {
  kLive,   // its core runs
  kReady,  // and nothing is missing: kubelet answers, a controller is attached to
};

absl::Status WriteHealth(const std::string& path, const std::vector<std::string>& complaints,
                         base::SteadyTime now);
// An error says what is wrong.
absl::Status CheckHealth(const std::string& path, HealthQuestion question, base::SteadyTime now);

}  // namespace asterism::agent
