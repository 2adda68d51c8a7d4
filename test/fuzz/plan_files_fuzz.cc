// Reads any bytes as the cluster file and as the TrainingJob of `kubectl asterism plan`.

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "cli/plan_request.h"

namespace asterism::cli {
namespace {

constexpr char kCluster[] = "gpu: H100\nlevels: [{name: node, gpus: 8}]\n";
constexpr char kJob[] =
    "kind: TrainingJob\nspec: {gpus: 8, framework: MegatronLM, "
    "model: {preset: llama-3-8b, globalBatchSize: 8, sequenceLength: 8192}}\n";

void FuzzPlanFiles(const std::string& text) {
  for (const PlanTexts& texts : {PlanTexts{.job = text, .cluster = kCluster, .config = text},
                                 PlanTexts{.job = kJob, .cluster = text}}) {
    const auto question = ReadPlanQuestion(texts, planner::LaunchFormat::kMegatron);
    CHECK_THAT(question.ok() || !question.status().message().empty(), "an error without a message");
    CHECK_THAT(!question.ok() || planner::CheckCluster(question->request.cluster).ok(),
               "a cluster that its own check refuses");
  }
}

}  // namespace
}  // namespace asterism::cli

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  asterism::cli::FuzzPlanFiles(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
