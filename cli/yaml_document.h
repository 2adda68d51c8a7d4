// File: cli/yaml_document.h
//
// A YAML file that somebody wrote, as JSON: what `-f job.yaml` names. JSON is YAML too.
//
//   ASSIGN_OR_RETURN(nlohmann::json job, ReadYamlDocument(text));
//
// The first document of the file. Plain words true, false, null and numbers get their types, quoted
// ones stay text. Bounds: 1 MiB, kYamlDepthMax deep, kYamlNodesMax values with those of aliases.
// Errors name the line.
//
// Thread-safety: pure. Cost: linear in the values.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace asterism::cli {

inline constexpr size_t kYamlBytesMax = size_t{1} << 20;
inline constexpr int kYamlDepthMax = 64;
inline constexpr size_t kYamlNodesMax = 100'000;

absl::StatusOr<nlohmann::json> ReadYamlDocument(std::string_view text);

}  // namespace asterism::cli
