// Reads any bytes as each of the launch files and as a command line.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/constraints.h"
#include "planner/emit_accelerate.h"
#include "planner/emit_deepspeed.h"
#include "planner/emit_megatron.h"
#include "planner/emit_torchtitan.h"
#include "planner/model_presets.h"
#include "planner/setting_reader.h"

namespace asterism::planner {
namespace {

// What is read is safe to check.
void FuzzLaunch(const absl::StatusOr<LaunchPlan>& launch) {
  if (launch.ok() && CheckDegrees(launch->plan).ok()) {
    (void)CheckLaunch(*FindModelPreset("llama-3-8b"), *launch, {}, 64);
  }
}

void FuzzSettings(std::string_view text) {
  const ModelSpec& model = *FindModelPreset("llama-3-8b");
  const std::vector<std::string> words = SplitWords(text);
  const FieldTable arguments = ReadArguments(words, MegatronSwitches());
  FuzzLaunch(ParseMegatron(arguments, 64));
  FuzzLaunch(ParseTorchTitan(model, arguments));
  FuzzLaunch(ParseBridge(ReadOverrides(words), 64));
  (void)ParseTorchrun(arguments);
  if (const auto fields = ParseNestedJson(text); fields.ok()) {
    FuzzLaunch(ParseDeepSpeed(*fields, {.gpus = 64, .sequence = 4096}));
  }
  if (const auto fields = ParseToml(text); fields.ok()) {
    FuzzLaunch(ParseTorchTitan(model, *fields));
  }
  if (const auto fields = ParseNestedYaml(text); fields.ok()) {
    FuzzLaunch(ParseAccelerate(*fields, arguments, {.sequence = 4096}));
  }
}

}  // namespace
}  // namespace asterism::planner

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  asterism::planner::FuzzSettings({reinterpret_cast<const char*>(data), size});
  return 0;
}
