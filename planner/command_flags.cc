#include "planner/command_flags.h"

#include <string_view>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "planner/constraints.h"
#include "planner/emit_megatron.h"
#include "planner/setting_reader.h"

namespace asterism::planner {
namespace {

struct DegreeFlag {
  Framework framework;
  std::string_view name;
  int64_t FixedDegrees::*degree;
};

constexpr DegreeFlag kDegreeFlags[] = {
    {Framework::kMegatron, "tensor-model-parallel-size", &FixedDegrees::tensor},
    {Framework::kMegatron, "pipeline-model-parallel-size", &FixedDegrees::pipeline},
    {Framework::kMegatron, "context-parallel-size", &FixedDegrees::context},
    {Framework::kMegatron, "expert-model-parallel-size", &FixedDegrees::expert},
    {Framework::kMegatron, "micro-batch-size", &FixedDegrees::micro_batch},
    {Framework::kAccelerate, "per_device_train_batch_size", &FixedDegrees::micro_batch},
    {Framework::kTorchTitan, "parallelism.tensor_parallel_degree", &FixedDegrees::tensor},
    {Framework::kTorchTitan, "parallelism.pipeline_parallel_degree", &FixedDegrees::pipeline},
    {Framework::kTorchTitan, "parallelism.context_parallel_degree", &FixedDegrees::context},
    {Framework::kTorchTitan, "parallelism.expert_parallel_degree", &FixedDegrees::expert},
};

std::string_view OptionOf(std::string_view word) {
  return word.size() > 2 && word.starts_with("--") ? word.substr(2, word.find('=') - 2)
                                                   : std::string_view();
}

bool Gives(std::span<const std::string> words, std::string_view option) {
  for (const std::string& word : words) {
    if (OptionOf(word) == option) {
      return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<FixedDegrees> FixedByCommand(Framework framework,
                                            std::span<const std::string> words) {
  const FieldTable fields = ReadArguments(words, MegatronSwitches());
  FixedDegrees fixed;
  for (const DegreeFlag& flag : kDegreeFlags) {
    if (flag.framework != framework || !Gives(words, flag.name)) {
      continue;
    }
    ASSIGN_OR_RETURN(fixed.*flag.degree, fields.Whole(flag.name));
    if (fixed.*flag.degree < 1 || fixed.*flag.degree > kDegreeMax) {
      return absl::InvalidArgumentError(fmt::format("--{}: {} is out of range: use 1 to {}",
                                                    flag.name, fixed.*flag.degree, kDegreeMax));
    }
  }
  return fixed;
}

std::vector<std::string> WithoutGiven(const std::vector<std::string>& arguments,
                                      std::span<const std::string> words) {
  std::vector<std::string> rest;
  bool given = false;
  for (const std::string& argument : arguments) {
    if (const std::string_view option = OptionOf(argument); !option.empty()) {
      given = Gives(words, option);
    }
    if (!given) {
      rest.push_back(argument);
    }
  }
  return rest;
}

}  // namespace asterism::planner
