#include "controller/planner_messages.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "asterism/v1/planner.pb.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "operator/job_model.h"
#include "operator/json_fields.h"
#include "planner/command_flags.h"
#include "planner/constraints.h"
#include "planner/launch_files.h"

namespace asterism::controller {
namespace {

constexpr std::string_view kShardingNames[] = {"None", "Optimizer", "Gradients", "Full"};
constexpr std::string_view kRecomputeNames[] = {"None", "Selective", "Modules", "Operators",
                                                "Full"};

absl::Status WrongNumber(std::string_view field, double value) {
  return absl::InvalidArgumentError(
      fmt::format("{}: {} is no number above 0: state one", field, value));
}

absl::StatusOr<planner::ClusterSpec> ReadPlanCluster(const v1::PlanCluster& message) {
  const planner::GpuSpec* gpu = planner::FindGpu(message.gpu());
  if (gpu == nullptr) {
    return absl::InvalidArgumentError(fmt::format("cluster.gpu: \"{}\" is not known: use one of {}",
                                                  message.gpu().substr(0, 64),
                                                  fmt::join(planner::GpuNames(), ", ")));
  }
  planner::ClusterSpec cluster{.gpu = *gpu};
  for (const v1::PlanLevel& each : message.levels()) {
    planner::ClusterLevel level{.name = each.name().substr(0, 64), .gpus = each.gpus()};
    level.gigabytes_per_second = each.gigabytes_per_second();
    if (cluster.levels.empty() && level.gigabytes_per_second == 0) {
      level.gigabytes_per_second = gpu->nvlink_gigabytes_per_second;
    }
    const double slowdown = each.slowdown() == 0 ? 1 : each.slowdown();
    if (!std::isfinite(level.gigabytes_per_second) || !std::isfinite(each.latency_microseconds())) {
      return WrongNumber("cluster.levels", level.gigabytes_per_second);
    }
    if (!(slowdown > 0) || !std::isfinite(slowdown)) {
      return WrongNumber("cluster.levels.slowdown", slowdown);
    }
    level.gigabytes_per_second /= slowdown;
    level.latency_us = each.latency_microseconds();
    cluster.levels.push_back(std::move(level));
  }
  if (const absl::Status status = planner::CheckCluster(cluster); !status.ok()) {
    return absl::InvalidArgumentError(fmt::format(
        "cluster.{}", std::string_view(status.message().data(), status.message().size())));
  }
  return cluster;
}

// In the order of planner::CalibratedConstants.
absl::Status ReadConstants(const v1::TimeConstants& message, planner::TimeConstants& constants) {
  const double values[] = {message.product_efficiency(),   message.grouped_efficiency(),
                           message.attention_efficiency(), message.half_width(),
                           message.half_tokens(),          message.elementwise(),
                           message.exposed_exchange(),     message.network_share(),
                           message.exposed_data(),         message.launch_microseconds()};
  const auto& fields = planner::CalibratedConstants();
  for (size_t index = 0; index < fields.size(); ++index) {
    if (!(values[index] > 0) || !std::isfinite(values[index])) {
      return WrongNumber("constants", values[index]);
    }
    constants.*fields[index] = values[index];
  }
  return absl::OkStatus();
}

void FillSpan(const planner::Span& span, v1::Estimate& message) {
  message.set_value(span.value);
  message.set_low(span.low);
  message.set_high(span.high);
}

void FillChoices(const std::vector<planner::LaunchChoice>& choices, auto* list) {
  for (const planner::LaunchChoice& each : choices) {
    v1::Choice& choice = *list->Add();
    choice.set_name(each.name);
    choice.set_value(each.value);
    choice.set_reason(each.reason);
  }
}

void FillTerms(const auto& terms, auto* list) {
  for (const auto& [name, value] : terms) {
    v1::Term& term = *list->Add();
    term.set_name(std::string(name));
    term.set_value(value);
  }
}

void FillGroups(const PlannerQuestion& question, const planner::PlanAnswer& answer,
                v1::ParallelPlan& message) {
  for (const planner::GroupTraffic& each : answer.groups) {
    v1::CommunicationGroup& group = *message.add_groups();
    group.set_kind(std::string(planner::ToString(each.kind)));
    group.set_ranks(each.ranks);
    group.set_groups(each.groups);
    group.set_stride(each.stride);
    group.set_level(question.request.cluster.levels[each.level].name);
    group.set_bytes_per_step(each.bytes_per_step);
    group.set_bytes_per_message(each.bytes_a_message);
    group.set_exposed(each.exposed);
  }
}

void FillLaunch(const PlannerQuestion& question, const planner::PlanAnswer& answer,
                v1::ParallelPlan& message) {
  const planner::LaunchFiles files = planner::WriteLaunch(
      question.request.model, answer.tuned.launch,
      {.nodes = (answer.best().gpus + question.gpus_per_node - 1) / question.gpus_per_node,
       .gpus_per_node = question.gpus_per_node},
      planner::FormatOf(question.request.framework));
  for (const std::string& word : planner::WithoutGiven(files.arguments, question.command)) {
    message.add_arguments(word);
  }
  if (!files.name.empty()) {
    message.mutable_file()->set_name(files.name);
    message.mutable_file()->set_content(files.text);
  }
}

}  // namespace

absl::StatusOr<PlannerQuestion> ReadPlannerQuestion(const v1::PlanQuestion& question,
                                                    const planner::CalibrationSet& kept) {
  ASSIGN_OR_RETURN(const planner::ClusterSpec cluster, ReadPlanCluster(question.cluster()));
  ASSIGN_OR_RETURN(const nlohmann::json job,
                   operators::ParseObjectText(question.training_job_json(), "TrainingJob"));
  absl::Status error;
  const operators::JobPlanSpec spec =
      operators::ParseJobPlan(operators::JsonFields(&job, "", &error).Object("spec"));
  RETURN_IF_ERROR(error);
  const std::optional<planner::Framework> framework = operators::PlannerFrameworkOf(spec.framework);
  if (!framework.has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("spec.framework: {} has no arguments that could be planned: use MegatronLM, "
                    "DeepSpeed or FSDP",
                    spec.framework.substr(0, 64)));
  }
  if (spec.model.has_value() && !spec.model->config_map.empty() && question.config_json().empty()) {
    return absl::InvalidArgumentError(
        "config_json: missing: give the content of the ConfigMap that "
        "spec.model.huggingFaceConfigMap names");
  }
  PlannerQuestion read;
  ASSIGN_OR_RETURN(read.request, operators::RequestOfJob(spec, *framework, cluster,
                                                         question.config_json(), kept));
  if (question.has_constants()) {
    RETURN_IF_ERROR(ReadConstants(question.constants(), read.request.constants));
    read.request.tables_version = planner::kTimeTablesVersion;
  }
  read.gpus_per_node = std::min(cluster.levels.front().gpus, read.request.gpus);
  read.command = spec.command;
  return read;
}

absl::StatusOr<planner::LaunchPlan> ReadLaunchText(const PlannerQuestion& question,
                                                   const v1::LaunchText& text) {
  planner::WrittenLaunch written{.arguments = {text.arguments().begin(), text.arguments().end()},
                                 .file = text.file()};
  if (written.arguments.empty()) {
    written.arguments = question.command;
  }
  const planner::SearchRequest& request = question.request;
  ASSIGN_OR_RETURN(planner::LaunchPlan launch,
                   planner::ReadLaunch(request.model, request.framework, written,
                                       {.gpus = request.gpus,
                                        .global_batch = request.global_batch,
                                        .sequence = request.sequence}));
  RETURN_IF_ERROR(planner::CheckDegrees(launch.plan));
  return launch;
}

absl::Status CheckStages(const PlannerQuestion& question, const planner::ParallelPlan& plan) {
  if (plan.degrees.pipeline * plan.virtual_stages > question.request.model.layers + 2) {
    return absl::InvalidArgumentError(
        fmt::format("launch: {} stages are more than the {} layers: use fewer",
                    plan.degrees.pipeline * plan.virtual_stages, question.request.model.layers));
  }
  return absl::OkStatus();
}

absl::StatusOr<planner::LaunchEnvironment> ReadLaunchEnvironment(const PlannerQuestion& question,
                                                                 const v1::LaunchText& text) {
  planner::LaunchEnvironment environment;
  environment.cuda_major = question.request.cluster.gpu.cuda_major;
  for (const auto& [name, value] : text.environment()) {
    if (name == "CUDA_DEVICE_MAX_CONNECTIONS") {
      const char* const end = value.data() + value.size();
      const auto read = std::from_chars(value.data(), end, environment.device_connections);
      if (read.ec != std::errc() || read.ptr != end) {
        return absl::InvalidArgumentError(fmt::format(
            "environment.{}: \"{}\" is no whole number: state one", name, value.substr(0, 64)));
      }
    } else if (name == "PYTORCH_CUDA_ALLOC_CONF") {
      environment.expandable_segments = value.find("expandable_segments:True") != std::string::npos;
    }
  }
  return environment;
}

void FillPlan(const PlannerQuestion& question, const planner::PlanAnswer& answer,
              v1::ParallelPlan& message) {
  const planner::ParallelPlan& plan = answer.best().plan;
  v1::ParallelDegrees& degrees = *message.mutable_degrees();
  degrees.set_tensor(plan.degrees.tensor);
  degrees.set_pipeline(plan.degrees.pipeline);
  degrees.set_context(plan.degrees.context);
  degrees.set_data(plan.degrees.data);
  degrees.set_expert(plan.degrees.expert);
  degrees.set_expert_tensor(plan.degrees.expert_tensor);
  message.set_gpus_used(answer.best().gpus);
  message.set_micro_batch_size(plan.micro_batch);
  message.set_micro_batches(plan.MicroBatches());
  message.set_virtual_stages(plan.virtual_stages);
  message.set_sharding(std::string(kShardingNames[static_cast<size_t>(plan.sharding)]));
  message.set_recompute(std::string(kRecomputeNames[static_cast<size_t>(plan.recompute.mode)]));
  FillSpan(answer.seconds, *message.mutable_step_seconds());
  FillTerms(answer.time_terms, message.mutable_step_terms());
  FillSpan(answer.device.allocated, *message.mutable_allocated_bytes());
  FillSpan(answer.device.reserved, *message.mutable_reserved_bytes());
  FillSpan(answer.device.device, *message.mutable_device_bytes());
  FillTerms(answer.memory.stages[answer.memory.peak_stage].Terms(), message.mutable_memory_terms());
  message.set_peak_stage(static_cast<int64_t>(answer.memory.peak_stage));
  message.set_fits(planner::Fits(answer.device, question.request.cluster.gpu.memory_bytes));
  message.set_bound_by(answer.bound_by);
  FillLaunch(question, answer, message);
  FillChoices(answer.tuned.choices, message.mutable_switches());
  FillChoices(answer.tuned.variables, message.mutable_environment());
  FillGroups(question, answer, message);
  message.set_state_copies(answer.state_copies);
  message.set_weight_copies(answer.weight_copies);
  message.mutable_legal_world_sizes()->Add(answer.legal_world_sizes.begin(),
                                           answer.legal_world_sizes.end());
  for (const planner::RejectedNeighbour& each : answer.neighbours) {
    v1::RefusedPlan& refused = *message.add_refused();
    refused.set_change(each.change);
    refused.set_step_seconds(each.seconds);
    refused.set_rule(each.id);
    refused.set_reason(each.reason);
  }
}

void FillCertificate(const planner::SearchCertificate& certificate, v1::Certificate& message) {
  message.set_space(certificate.space);
  message.set_evaluated(certificate.evaluated);
  message.set_pruned(certificate.pruned);
  message.set_proven(certificate.proven);
  if (std::isfinite(certificate.min_pruned_bound)) {
    message.set_least_bound_of_pruned_seconds(certificate.min_pruned_bound);
  }
}

void FillConstants(const planner::TimeConstants& constants, v1::TimeConstants& message) {
  message.set_product_efficiency(constants.product_efficiency);
  message.set_grouped_efficiency(constants.grouped_efficiency);
  message.set_attention_efficiency(constants.attention_efficiency);
  message.set_half_width(constants.half_width);
  message.set_half_tokens(constants.half_tokens);
  message.set_elementwise(constants.elementwise);
  message.set_exposed_exchange(constants.exposed_exchange);
  message.set_network_share(constants.network_share);
  message.set_exposed_data(constants.exposed_data);
  message.set_launch_microseconds(constants.launch_us);
}

}  // namespace asterism::controller
