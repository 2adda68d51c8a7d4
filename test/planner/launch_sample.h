// File: test/planner/launch_sample.h
//
// A launch that its framework accepts, to change and look at.
//
//   LaunchSample sample = LegalLaunch(Framework::kMegatron);     // Llama 3 70B on 64 GPUs
//
// Thread-safety: values. Cost: none.
#pragma once

#include "planner/launch_plan.h"
#include "planner/model_presets.h"

namespace asterism::planner {

struct LaunchSample {
  ModelSpec model = *FindModelPreset("llama-3-70b");
  LaunchPlan launch;
  LaunchEnvironment environment;
  int64_t gpus = 64;
};

inline LaunchSample LegalLaunch(Framework framework) {
  LaunchSample sample;
  ParallelPlan& plan = sample.launch.plan;
  plan.framework = framework;
  plan.degrees = {.tensor = 4, .pipeline = 4, .data = 4};
  plan.sequence = 4096;
  plan.global_batch = 128;
  plan.sequence_parallel = framework == Framework::kMegatron;
  sample.environment.device_connections = 1;
  if (framework == Framework::kAccelerate) {
    plan.degrees = {.tensor = 4, .data = 16};
    plan.sharding = Sharding::kFull;
  }
  if (framework == Framework::kTorchTitan) {
    plan.sequence_parallel = true;
    plan.sharding = Sharding::kFull;
  }
  return sample;
}

}  // namespace asterism::planner
