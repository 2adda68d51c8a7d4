// File: planner/launch_files.h
//
// What a user types or mounts for a launch, in one of the formats.
//
//   LaunchFiles files = WriteLaunch(model, launch, {.nodes = 64, .gpus_per_node = 8}, format);
//   files.arguments         // of the user's program
//   files.name, files.text  // a file, where the format has one
//   ASSIGN_OR_RETURN(LaunchPlan launch, ReadLaunch(model, framework, {.file = text}, job));
//
// Errors of ReadLaunch: those of the parsers. Thread-safety: pure. Cost: about 20 us.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/launch_plan.h"
#include "planner/model_spec.h"

namespace asterism::planner {

enum class LaunchFormat { kMegatron, kBridge, kDeepSpeed, kTorchTitan, kAccelerate, kTorchrun };

struct LaunchNodes {
  int64_t nodes = 1;
  int64_t gpus_per_node = 1;
};

struct LaunchFiles {
  std::vector<std::string> arguments;
  std::string name;  // empty: no file
  std::string text;
};

LaunchFiles WriteLaunch(const ModelSpec& model, const LaunchPlan& launch, const LaunchNodes& nodes,
                        LaunchFormat format);

// A launch that somebody wrote, as its framework reads it; see the emit_ files for what each holds.
// What neither arguments nor file say of batch and sequence is the job's.
struct WrittenLaunch {
  std::vector<std::string> arguments;
  std::string file;
};
struct WrittenJob {
  int64_t gpus = 0;
  int64_t global_batch = 0;
  int64_t sequence = 0;
};
absl::StatusOr<LaunchPlan> ReadLaunch(const ModelSpec& model, Framework framework,
                                      const WrittenLaunch& launch, const WrittenJob& job);

// Whose plans a format can hold; nothing: any.
std::optional<Framework> FrameworkOf(LaunchFormat format);
LaunchFormat FormatOf(Framework framework);

}  // namespace asterism::planner
