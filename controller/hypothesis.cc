#include "controller/hypothesis.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "asterism/v1/placement.pb.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "controller/asked_job.h"
#include "controller/kubernetes_names.h"
#include "controller/object_names.h"
#include "fmt/format.h"
#include "operator/node_ranges.h"
#include "operator/training_job_status.h"

namespace asterism::controller {
namespace {

using scheduler::ClusterChange;
using scheduler::ClusterChangeKind;

std::string FieldOfChange(int index) {
  return fmt::format("changes[{}]", index);
}

absl::Status Missing(std::string_view field, std::string_view remedy) {
  return absl::InvalidArgumentError(fmt::format("{}: is missing: {}", field, remedy));
}

// Reads all changes but the jobs that end, in their order, within bounds of each and of all.
class ChangeReader {
 public:
  explicit ChangeReader(std::vector<ClusterChange>& changes) : changes_(changes) {}

  absl::Status Read(const v1::Change& change, const std::string& field) {
    switch (change.change_case()) {
      case v1::Change::kAddNodes:
        return AddNodes(change.add_nodes(), field);
      case v1::Change::kRemoveNodes:
        return NameNodes(ClusterChangeKind::kRemoveNodes, change.remove_nodes(), field,
                         "remove_nodes");
      case v1::Change::kCordonNodes:
        return NameNodes(ClusterChangeKind::kCordonNodes, change.cordon_nodes(), field,
                         "cordon_nodes");
      case v1::Change::kUncordonNodes:
        return NameNodes(ClusterChangeKind::kUncordonNodes, change.uncordon_nodes(), field,
                         "uncordon_nodes");
      case v1::Change::kGpus:
        return SetGpus(change.gpus(), field);
      case v1::Change::kRemoveJob:
        return absl::OkStatus();
      case v1::Change::CHANGE_NOT_SET:
        break;
    }
    return Missing(field,
                   "give one of add_nodes, remove_nodes, cordon_nodes, uncordon_nodes, "
                   "remove_job and gpus");
  }
  const std::optional<int64_t>& gpus() const { return gpus_; }

 private:
  absl::Status AddNodes(const v1::AddNodes& nodes, const std::string& field) {
    if (nodes.count() < 1 || nodes.count() > kAllAddedNodesMax) {
      return absl::InvalidArgumentError(
          fmt::format("{}.add_nodes.count: {} is not from 1 to {}: "
                      "say how many nodes come",
                      field, nodes.count(), kAllAddedNodesMax));
    }
    added_ += nodes.count();
    if (added_ > kAllAddedNodesMax) {
      return absl::InvalidArgumentError(
          fmt::format("{}.add_nodes.count: all changes together add {} nodes: add at most {}",
                      field, added_, kAllAddedNodesMax));
    }
    if (!nodes.like_node().empty()) {
      RETURN_IF_ERROR(CheckObjectName(field + ".add_nodes.like_node", nodes.like_node()));
    }
    // Domains are values of labels; those of the innermost level may be named after nodes.
    if (!IsLabelValue(nodes.domain()) && !CheckObjectName("", nodes.domain()).ok()) {
      return absl::InvalidArgumentError(
          fmt::format("{}.add_nodes.domain: is not the name of a domain: use at most 63 letters, "
                      "digits, '-', '_' and '.', as in the value of a label",
                      field));
    }
    changes_.push_back({.kind = ClusterChangeKind::kAddNodes,
                        .nodes = {},
                        .count = nodes.count(),
                        .like_node = nodes.like_node(),
                        .domain = nodes.domain(),
                        .field = field});
    return absl::OkStatus();
  }

  absl::Status NameNodes(ClusterChangeKind kind, const v1::NodeList& list, const std::string& field,
                         std::string_view what) {
    const size_t limit = std::min(kChangedNodesMax, kAllChangedNodesMax - named_);
    absl::StatusOr<std::vector<std::string>> nodes =
        operators::ParseNodeRanges(list.nodes(), limit);
    if (!nodes.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("{}.{}.nodes: {}", field, what, base::ToStd(nodes.status().message())));
    }
    if (nodes->empty()) {
      return Missing(fmt::format("{}.{}.nodes", field, what),
                     "name nodes, for example \"gpu-[0000-0003]\"");
    }
    named_ += nodes->size();
    changes_.push_back({.kind = kind, .nodes = *std::move(nodes), .field = field});
    return absl::OkStatus();
  }

  absl::Status SetGpus(int64_t gpus, const std::string& field) {
    if (gpus < 1 || gpus > operators::kGpusMax) {
      return absl::InvalidArgumentError(
          fmt::format("{}.gpus: {} is not from 1 to {}: say how many GPUs the job asks for", field,
                      gpus, operators::kGpusMax));
    }
    gpus_ = gpus;
    return absl::OkStatus();
  }

  std::vector<ClusterChange>& changes_;
  int64_t added_ = 0;
  size_t named_ = 0;
  std::optional<int64_t> gpus_;
};

}  // namespace

absl::StatusOr<AskedNames> ReadAskedNames(const v1::PlaceRequest& request) {
  AskedNames names;
  ASSIGN_OR_RETURN(names.job, ReadAskedJobName(request.training_job_json()));
  return names;
}

absl::StatusOr<AskedNames> ReadAskedNames(const v1::WhatIfRequest& request) {
  if (request.changes_size() > kChangesMax) {
    return absl::InvalidArgumentError(fmt::format("changes: {} are too many: send at most {}",
                                                  request.changes_size(), kChangesMax));
  }
  AskedNames names;
  ASSIGN_OR_RETURN(names.job, ReadAskedJobName(request.training_job_json()));
  for (int i = 0; i < request.changes_size(); ++i) {
    if (!request.changes(i).has_remove_job()) {
      continue;
    }
    const v1::JobName& job = request.changes(i).remove_job();
    std::string field = FieldOfChange(i) + ".remove_job";
    RETURN_IF_ERROR(CheckNamespaceName(field + ".namespace", job.namespace_()));
    RETURN_IF_ERROR(CheckObjectName(field + ".name", job.name()));
    names.ended_jobs.push_back({{job.namespace_(), job.name()}, std::move(field)});
  }
  return names;
}

absl::StatusOr<Hypothesis> ReadHypothesis(const v1::PlaceRequest& request) {
  Hypothesis hypothesis;
  ASSIGN_OR_RETURN(hypothesis.names, ReadAskedNames(request));
  ASSIGN_OR_RETURN(hypothesis.job, ReadAskedJob(request.training_job_json(), hypothesis.names.job));
  return hypothesis;
}

absl::StatusOr<Hypothesis> ReadHypothesis(const v1::WhatIfRequest& request) {
  Hypothesis hypothesis;
  ASSIGN_OR_RETURN(hypothesis.names, ReadAskedNames(request));
  ChangeReader changes(hypothesis.changes);
  for (int i = 0; i < request.changes_size(); ++i) {
    RETURN_IF_ERROR(changes.Read(request.changes(i), FieldOfChange(i)));
  }
  ASSIGN_OR_RETURN(hypothesis.job, ReadAskedJob(request.training_job_json(), hypothesis.names.job));
  if (changes.gpus()) {
    ASSIGN_OR_RETURN(hypothesis.job, WithGpus(hypothesis.job, *changes.gpus()));
  }
  return hypothesis;
}

}  // namespace asterism::controller
