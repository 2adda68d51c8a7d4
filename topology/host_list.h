// File: topology/host_list.h
//
// Host lists as Slurm and topograph write them: "n[001-012,90],gpu-1" stands for many names, and
// back.
//
//   ASSIGN_OR_RETURN(std::vector<std::string> names, ExpandHostList("n[01-03]", 1000));
//   CompressHostList(names);   // "n[01-03]"
//
// Several brackets in one name multiply ("r[1-2]n[1-4]"). Leading zeros keep the width.
//
// Thread-safety: pure. Cost: linear in the names.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace asterism::topology {

// More than `names_max` names, a bracket that is not closed or a range that runs backwards is an
// error.
absl::StatusOr<std::vector<std::string>> ExpandHostList(std::string_view text, size_t names_max);

// Names that differ in their last number only share a bracket; order as given.
std::string CompressHostList(const std::vector<std::string>& names);

}  // namespace asterism::topology
