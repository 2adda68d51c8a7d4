// File: planner/model_presets.h
//
// Models by name, so that a job can say `preset: llama-3-8b`.
//
//   const ModelSpec* model = FindModelPreset("llama-3-70b");   // null: no such preset
//   ModelPresetNames()                                         // for the message
//
// Shapes are those of the models' published configuration files; where a model counts multi-token
// prediction apart, mtp_depth is 0 here and may be set on a copy.
//
// Thread-safety: immutable after the first call. Cost: a search of about fifteen names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/model_spec.h"

namespace asterism::planner {

const ModelSpec* FindModelPreset(std::string_view name);
std::vector<std::string> ModelPresetNames();  // sorted
// The preset whose name has the fewest letters changed.
std::string NearestPreset(std::string_view name);

}  // namespace asterism::planner
