// File: cli/plan_request.h
//
// What `kubectl asterism plan` is asked, from the files that its user names: a TrainingJob, a
// cluster, a config.json.
//
//   ASSIGN_OR_RETURN(PlanFiles files, ReadPlanFiles({.job = text, .cluster = text}));
//   ASSIGN_OR_RETURN(PlanQuestion question, PlanQuestionOf(files, LaunchFormat::kMegatron));
//
// The cluster file:
//
//   gpu: H100                     # a name of the table, or fields (below)
//   levels:                       # inner to outer
//   - {name: node, gpus: 8}       # without a bandwidth: the GPU's NVLink
//   - {name: cluster, gpus: 1024, gigabytesPerSecond: 50, latencyMicroseconds: 14, slowdown: 1.5}
//
// gpus: of one domain of the level. Bandwidth per GPU and direction; slowdown divides it
// (congestion). An own GPU: memoryGibibytes, bf16Teraflops, memoryGigabytesPerSecond, and if it has
// them fp8Teraflops, nvlinkGigabytesPerSecond.
//
// Errors name file, field and way out. Thread-safety: pure. Cost: linear in the files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/cluster_spec.h"
#include "planner/launch_files.h"
#include "planner/search.h"

namespace asterism::cli {

struct PlanTexts {
  std::string job;
  std::string cluster;
  std::string config;  // config.json; empty: none
};

struct PlanQuestion {
  std::string name;  // of the job
  planner::SearchRequest request;
  int64_t gpus_per_node = 8;  // of the first level
  planner::LaunchFormat format = planner::LaunchFormat::kMegatron;
  std::vector<std::string> command;
};

absl::StatusOr<planner::ClusterSpec> ParsePlanCluster(std::string_view text);

// `format`: what was asked for; nothing: that of the job's framework.
absl::StatusOr<PlanQuestion> ReadPlanQuestion(const PlanTexts& texts,
                                              std::optional<planner::LaunchFormat> format);

}  // namespace asterism::cli
