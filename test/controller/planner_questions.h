// File: test/controller/planner_questions.h
//
// Questions for the planner, as its callers ask them.
//
//   v1::PlanQuestion question = PlanQuestionFor(512, {.model = "llama-3-8b"});
//
// Thread-safety: pure. Cost: none.
#pragma once

#include <string>

#include "asterism/v1/planner.pb.h"
#include "fmt/format.h"

namespace asterism::controller {

struct AskedJob {
  std::string model = "llama-3-70b";
  std::string framework = "MegatronLM";
  std::string rest;  // further fields of the spec, each with a comma behind it
  std::string gpu = "H100";
};

// On up to 4,096 GPUs in nodes of eight.
inline v1::PlanQuestion PlanQuestionFor(int gpus, const AskedJob& job = {}) {
  v1::PlanQuestion question;
  question.set_training_job_json(fmt::format(
      R"({{"kind": "TrainingJob", "spec": {{"gpus": {}, "framework": "{}", {} "model": {{"preset":
      "{}", "globalBatchSize": 1024, "sequenceLength": 8192}}}}}})",
      gpus, job.framework, job.rest, job.model));
  v1::PlanCluster& cluster = *question.mutable_cluster();
  cluster.set_gpu(job.gpu);
  v1::PlanLevel& node = *cluster.add_levels();
  node.set_name("node");
  node.set_gpus(8);
  v1::PlanLevel& all = *cluster.add_levels();
  all.set_name("cluster");
  all.set_gpus(4096);
  all.set_gigabytes_per_second(50);
  all.set_latency_microseconds(14);
  return question;
}

}  // namespace asterism::controller
