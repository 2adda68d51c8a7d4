#include "cli/plan_view.h"
#include "nlohmann/json.hpp"
#include "planner/command_flags.h"
#include "planner/constraints.h"
#include "planner/launch_files.h"
#include "planner/runtime_profile.h"
#include "planner/time_constants.h"

namespace asterism::cli {
namespace {

using nlohmann::ordered_json;
using planner::PlanAnswer;

ordered_json SpanJson(const planner::Span& span) {
  return {{"value", span.value}, {"low", span.low}, {"high", span.high}};
}

ordered_json TermsJson(const auto& terms) {
  ordered_json list = ordered_json::array();
  for (const auto& [name, value] : terms) {
    list.push_back({{"name", std::string(name)}, {"value", value}});
  }
  return list;
}

ordered_json ChoicesJson(const std::vector<planner::LaunchChoice>& choices) {
  ordered_json list = ordered_json::array();
  for (const planner::LaunchChoice& each : choices) {
    list.push_back({{"name", each.name}, {"value", each.value}, {"reason", each.reason}});
  }
  return list;
}

ordered_json DegreesJson(const planner::Degrees& d) {
  return {{"tensor", d.tensor}, {"pipeline", d.pipeline}, {"context", d.context},
          {"data", d.data},     {"expert", d.expert},     {"expertTensor", d.expert_tensor}};
}

constexpr std::string_view kShardingWords[] = {"None", "Optimizer", "Gradients", "Full"};
constexpr std::string_view kRecomputeWords[] = {"None", "Selective", "Modules", "Operators",
                                                "Full"};

void AddPlanJson(const PlanQuestion& question, const PlanAnswer& answer, ordered_json& object) {
  const planner::ParallelPlan& plan = answer.best().plan;
  object["gpusUsed"] = answer.best().gpus;
  object["degrees"] = DegreesJson(plan.degrees);
  object["microBatchSize"] = plan.micro_batch;
  object["microBatches"] = plan.MicroBatches();
  object["virtualStages"] = plan.virtual_stages;
  object["sharding"] = kShardingWords[static_cast<size_t>(plan.sharding)];
  object["recompute"] = kRecomputeWords[static_cast<size_t>(plan.recompute.mode)];
  object["stepSeconds"] = SpanJson(answer.seconds);
  object["stepTerms"] = TermsJson(answer.time_terms);
  object["memoryBytes"] = {{"allocated", SpanJson(answer.device.allocated)},
                           {"reserved", SpanJson(answer.device.reserved)},
                           {"device", SpanJson(answer.device.device)}};
  object["peakStage"] = answer.memory.peak_stage;
  object["memoryTerms"] = TermsJson(answer.memory.stages[answer.memory.peak_stage].Terms());
  object["boundBy"] = answer.bound_by;
  object["refused"] = ordered_json::array();
  for (const planner::RejectedNeighbour& each : answer.neighbours) {
    object["refused"].push_back({{"change", each.change},
                                 {"stepSeconds", each.seconds},
                                 {"rule", each.id},
                                 {"reason", each.reason}});
  }
  object["groups"] = ordered_json::array();
  for (const planner::GroupTraffic& each : answer.groups) {
    object["groups"].push_back({{"kind", std::string(planner::ToString(each.kind))},
                                {"ranks", each.ranks},
                                {"groups", each.groups},
                                {"stride", each.stride},
                                {"level", question.request.cluster.levels[each.level].name},
                                {"bytesPerStep", each.bytes_per_step},
                                {"bytesPerMessage", each.bytes_a_message},
                                {"exposed", each.exposed}});
  }
  object["stateCopies"] = answer.state_copies;
  object["weightCopies"] = answer.weight_copies;
  object["legalWorldSizes"] = answer.legal_world_sizes;
  object["switches"] = ChoicesJson(answer.tuned.choices);
  object["environment"] = ChoicesJson(answer.tuned.variables);
  const planner::LaunchFiles files = planner::WriteLaunch(
      question.request.model, answer.tuned.launch,
      {.nodes = (answer.best().gpus + question.gpus_per_node - 1) / question.gpus_per_node,
       .gpus_per_node = question.gpus_per_node},
      question.format);
  object["arguments"] = planner::WithoutGiven(files.arguments, question.command);
  if (!files.name.empty()) {
    object["file"] = {{"name", files.name}, {"content", files.text}};
  }
}

}  // namespace

ordered_json PlanJson(const PlanQuestion& question, const PlanAnswer& answer) {
  const planner::SearchRequest& request = question.request;
  ordered_json object = {{"name", question.name},
                         {"model", request.model.name},
                         {"framework", std::string(planner::FrameworkName(request.framework))},
                         {"gpu", std::string(request.cluster.gpu.name)},
                         {"gpus", request.gpus},
                         {"globalBatchSize", request.global_batch},
                         {"sequenceLength", request.sequence},
                         {"fits", !answer.outcome.best.empty()}};
  if (answer.outcome.best.empty()) {
    object["reason"] = answer.impossible;
    object["minimumGpus"] = answer.minimum_gpus;
  } else {
    AddPlanJson(question, answer, object);
  }
  const planner::SearchCertificate& proof = answer.outcome.certificate;
  object["certificate"] = {{"space", proof.space},
                           {"evaluated", proof.evaluated},
                           {"pruned", proof.pruned},
                           {"proven", proof.proven}};
  if (proof.min_pruned_bound < 1e18) {
    object["certificate"]["leastBoundOfPruned"] = proof.min_pruned_bound;
  }
  object["tablesVersion"] = std::string(planner::kTimeTablesVersion);
  return object;
}

}  // namespace asterism::cli
