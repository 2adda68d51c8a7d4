// File: controller/label_selector.h
//
// Reads a label selector as kubectl writes it, into the requirements that the cluster feed takes.
//
//   ParseLabelSelector("pool=gpu,zone in (a, b),!asterism.dev/spare")
//
// Known forms: key, !key, key=value (also ==), key!=value, key in (a, b), key notin (a, b), Gt and
// Lt as key>1, key<9; a comma means AND. Empty: no requirement, every node.
// Thread-safety: pure. Cost: linear; at most kSelectorBytesMax bytes.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/template_fit.h"

namespace asterism::controller {

inline constexpr size_t kSelectorBytesMax = 4096;

// The error says what was expected where.
absl::StatusOr<std::vector<operators::NodeRequirement>> ParseLabelSelector(std::string_view text);

}  // namespace asterism::controller
