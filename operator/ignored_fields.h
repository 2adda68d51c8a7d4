// File: operator/ignored_fields.h
//
// The fields of a TrainingJob that are part of the API and that this version does not act on: a
// user who sets one is told so in a condition, instead of believing that it works.
//
//   std::string warning = IgnoredFields(*job.object, launcher);   // empty: none is set
//   // "not available yet: spec.placement.shape, spec.movable"
//
// Whoever builds one of these capabilities removes its line.
//
// Thread-safety: pure. Cost: a few look-ups.
#pragma once

#include <string>

#include "nlohmann/json_fwd.hpp"

namespace asterism::operators {

// `launcher`: the job's command runs under asterism-launch, which follows its progress.
std::string IgnoredFields(const nlohmann::json& job, bool launcher);

}  // namespace asterism::operators
