// File: planner/launch_tuning.h
//
// The switches and variables that a plan should run with, each with its reason.
//
//   TunedLaunch tuned = TuneLaunch({.model = model, .plan = plan, .cluster = cluster, ...});
//   tuned.launch.switches, tuned.variables[0].name == "CUDA_DEVICE_MAX_CONNECTIONS"
//
// The choice never leaves what CheckLaunch allows: a legal plan becomes a legal launch. It changes
// nothing of the plan. What costs accuracy for speed (gradients reduced in bf16) is chosen only
// where the exchange of gradients takes kNarrowShare of the step.
// Sources: Megatron-LM arguments.py (which switches exclude each other), its README and the
// Bridge performance guide (CUDA_DEVICE_MAX_CONNECTIONS, overlap), NVIDIA's NeMo performance
// scripts (NCCL_P2P_NET_CHUNKSIZE), torch's allocator notes (expandable_segments).
//
// Preconditions: as EstimateTime. Thread-safety: pure. Cost: three evaluations of the time model.
#pragma once

#include <string>
#include <vector>

#include "planner/cluster_spec.h"
#include "planner/device_memory.h"
#include "planner/launch_plan.h"
#include "planner/model_spec.h"
#include "planner/runtime_profile.h"
#include "planner/time_constants.h"

namespace asterism::planner {

inline constexpr double kNarrowShare = 0.10;
// Of a GPU's memory at the upper end of the interval.
inline constexpr double kTightMemory = 0.80;
// Of the step that launches of kernels cost.
inline constexpr double kGraphShare = 0.05;

struct TuningQuestion {
  const ModelSpec& model;
  const ParallelPlan& plan;
  const ClusterSpec& cluster;
  const RuntimeProfile& profile;
  const TimeConstants& constants;
  DeviceMemory memory;
};

// A switch that was set, or one that was left out on purpose.
struct LaunchChoice {
  std::string name;
  std::string value;
  std::string reason;
};

struct TunedLaunch {
  LaunchPlan launch;
  LaunchEnvironment environment;
  std::vector<LaunchChoice> choices;
  std::vector<LaunchChoice> variables;  // of the environment
};

TunedLaunch TuneLaunch(const TuningQuestion& question);

}  // namespace asterism::planner
