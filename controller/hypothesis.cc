#include "controller/hypothesis.h"

#include <optional>
#include <string>
#include <utility>

#include "asterism/v1/placement.pb.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "controller/kubernetes_names.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "operator/node_ranges.h"

namespace asterism::controller {
namespace {

using scheduler::ClusterChange;
using scheduler::ClusterChangeKind;

absl::Status Missing(std::string_view field, std::string_view remedy) {
  return absl::InvalidArgumentError(fmt::format("{}: is missing: {}", field, remedy));
}

absl::Status AddNodeList(ClusterChangeKind kind, const v1::NodeList& list, std::string_view field,
                         Hypothesis& hypothesis) {
  absl::StatusOr<std::vector<std::string>> nodes =
      operators::ParseNodeRanges(list.nodes(), kChangedNodesMax);
  if (!nodes.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}.nodes: {}", field, base::ToStd(nodes.status().message())));
  }
  if (nodes->empty()) {
    return Missing(fmt::format("{}.nodes", field), "name nodes, for example \"gpu-[0000-0003]\"");
  }
  hypothesis.changes.push_back({.kind = kind, .nodes = *std::move(nodes)});
  return absl::OkStatus();
}

absl::Status ReadChange(const v1::Change& change, std::string_view field, Hypothesis& hypothesis,
                        std::optional<int64_t>& gpus) {
  switch (change.change_case()) {
    case v1::Change::kAddNodes:
      hypothesis.changes.push_back({.kind = ClusterChangeKind::kAddNodes,
                                    .count = change.add_nodes().count(),
                                    .like_node = change.add_nodes().like_node(),
                                    .domain = change.add_nodes().domain()});
      return absl::OkStatus();
    case v1::Change::kRemoveNodes:
      return AddNodeList(ClusterChangeKind::kRemoveNodes, change.remove_nodes(),
                         fmt::format("{}.remove_nodes", field), hypothesis);
    case v1::Change::kCordonNodes:
      return AddNodeList(ClusterChangeKind::kCordonNodes, change.cordon_nodes(),
                         fmt::format("{}.cordon_nodes", field), hypothesis);
    case v1::Change::kUncordonNodes:
      return AddNodeList(ClusterChangeKind::kUncordonNodes, change.uncordon_nodes(),
                         fmt::format("{}.uncordon_nodes", field), hypothesis);
    case v1::Change::kRemoveJob:
      if (change.remove_job().namespace_().empty() || change.remove_job().name().empty()) {
        return Missing(fmt::format("{}.remove_job", field), "give namespace and name");
      }
      hypothesis.ended_jobs.push_back(
          {change.remove_job().namespace_(), change.remove_job().name()});
      return absl::OkStatus();
    case v1::Change::kGpus:
      gpus = change.gpus();
      return absl::OkStatus();
    case v1::Change::CHANGE_NOT_SET:
      break;
  }
  return Missing(field,
                 "give one of add_nodes, remove_nodes, cordon_nodes, uncordon_nodes, "
                 "remove_job and gpus");
}

// As if the user had written another number; what follows from it follows anew.
absl::StatusOr<operators::TrainingJob> WithGpus(const operators::TrainingJob& job, int64_t gpus) {
  nlohmann::json object = *job.object;
  object["spec"]["gpus"] = gpus;
  return ReadAskedJob(object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

absl::StatusOr<operators::TrainingJob> ReadAskedJob(std::string_view job_json) {
  if (job_json.empty()) {
    return Missing("training_job_json",
                   "send a TrainingJob as `kubectl create --dry-run=client -o json -f FILE` "
                   "prints it");
  }
  absl::StatusOr<operators::TrainingJob> job = operators::ParseTrainingJob(job_json);
  if (!job.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("training_job_json: {}", base::ToStd(job.status().message())));
  }
  if (job->meta.namespace_name.empty() || job->meta.name.empty()) {
    return Missing(fmt::format("training_job_json: metadata.{}",
                               job->meta.name.empty() ? "name" : "namespace"),
                   "a job is asked about by namespace and name");
  }
  for (const auto& [field, name] :
       {std::pair("namespace", &job->meta.namespace_name), std::pair("name", &job->meta.name)}) {
    if (!IsDnsSubdomain(*name)) {
      return absl::InvalidArgumentError(
          fmt::format("training_job_json: metadata.{}: is not a name: use lower-case letters, "
                      "digits and '-'",
                      field));
    }
  }
  return job;
}

absl::StatusOr<Hypothesis> ReadHypothesis(const v1::WhatIfRequest& request) {
  if (request.changes_size() > kChangesMax) {
    return absl::InvalidArgumentError(fmt::format("changes: {} are too many: send at most {}",
                                                  request.changes_size(), kChangesMax));
  }
  Hypothesis hypothesis;
  ASSIGN_OR_RETURN(hypothesis.job, ReadAskedJob(request.training_job_json()));
  std::optional<int64_t> gpus;
  for (int i = 0; i < request.changes_size(); ++i) {
    RETURN_IF_ERROR(
        ReadChange(request.changes(i), fmt::format("changes[{}]", i), hypothesis, gpus));
  }
  if (gpus) {
    ASSIGN_OR_RETURN(hypothesis.job, WithGpus(hypothesis.job, *gpus));
  }
  return hypothesis;
}

}  // namespace asterism::controller
