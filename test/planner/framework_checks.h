// File: test/planner/framework_checks.h
//
// What the frameworks themselves check before the first step, written anew from their sources over
// the text that a user would hand them: arguments, JSON, TOML, YAML. It shares nothing with the
// constraint table, so that one finds the mistakes of the other.
//
//   EXPECT_THAT(MegatronComplaints(arguments, model, environment, 512), IsEmpty());
//
// Sources: validate_args of Megatron-LM's arguments.py and __post_init__ of its
// TransformerConfig; DeepSpeed's runtime/config.py and engine.py; torchtitan's parallel_dims.py and
// pipeline_parallel.py; accelerate's parallelism_config.py.
//
// Thread-safety: pure. Cost: microseconds.
#pragma once

#include <string>
#include <vector>

#include "planner/launch_plan.h"
#include "planner/model_spec.h"

namespace asterism::planner {

using Complaints = std::vector<std::string>;

Complaints MegatronComplaints(const std::vector<std::string>& arguments, const ModelSpec& model,
                              const LaunchEnvironment& environment, int64_t world);
Complaints DeepSpeedComplaints(const std::string& json, const ModelSpec& model, int64_t world);
Complaints TorchTitanComplaints(const std::string& toml, const ModelSpec& model, int64_t world);
Complaints AccelerateComplaints(const std::string& yaml, const ModelSpec& model, int64_t world);

}  // namespace asterism::planner
