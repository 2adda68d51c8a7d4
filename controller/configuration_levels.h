// File: controller/configuration_levels.h
//
// The field `levels`: the rings of the topology, and where the domains of a node stand.
//
//   Row("levels", Reload::kRestart, LevelsValue(), "...")
//
// Thread-safety: pure. Cost: linear in the list, at most 16 levels.
#pragma once

#include "controller/configuration_values.h"

namespace asterism::controller {

FieldValue LevelsValue();

}  // namespace asterism::controller
