// File: cli/age_text.h
//
// Durations as kubectl writes them: 95s, 5m3s, 45m, 3h5m, 30h, 3d4h, 12d.
//
//   AgeText(absl::Minutes(12))                        // "12m"
//   ShortDuration(absl::Microseconds(71))             // "71 us"
//   TimeText(job.meta.creation_time)                  // "2026-11-30T10:00:00Z"
//
// Thread-safety: pure. Cost: one format.
#pragma once

#include <string>

#include "absl/time/time.h"

namespace asterism::cli {

std::string AgeText(absl::Duration age);  // below zero: "0s"; infinite: "<unknown>"
// With a unit that leaves one to four digits: "71 us", "640 ms", "2.1 s", "12m".
std::string ShortDuration(absl::Duration duration);
// UTC, whole seconds; empty for an infinite time.
std::string TimeText(absl::Time time);

}  // namespace asterism::cli
