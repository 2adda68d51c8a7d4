#include "operator/gang_shape.h"

#include <algorithm>
#include <string>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "operator/training_job_status.h"

namespace asterism::operators {
namespace {

absl::StatusOr<int64_t> GpusPerPod(const TrainingJobSpec& spec, NodeGpus nodes) {
  if (nodes.commonest <= 0) {
    return absl::FailedPreconditionError(
        fmt::format("spec.gpusPerPod: no node with {} has joined yet, so the GPUs of a node are "
                    "not known: wait "
                    "for the nodes, or check spec.resourceName",
                    spec.resource_name));
  }
  const int64_t largest = std::max(nodes.commonest, nodes.largest);
  const int64_t gpus_per_pod = spec.gpus_per_pod.value_or(std::min(spec.gpus, nodes.commonest));
  if (gpus_per_pod > largest) {
    return absl::InvalidArgumentError(
        fmt::format("spec.gpusPerPod: {} is more than a node has ({} {}), and a pod never spans "
                    "nodes: use at most {}",
                    gpus_per_pod, largest, spec.resource_name, largest));
  }
  if (gpus_per_pod < 1) {
    return absl::InvalidArgumentError("spec.gpusPerPod: must be at least 1");
  }
  return gpus_per_pod;
}

// "96 or 104", the multiples of `unit` around `value`.
std::string NearestMultiples(int64_t value, int64_t unit) {
  const int64_t below = value / unit * unit;
  const int64_t above = below + unit;
  if (below == 0) {
    return std::to_string(above);
  }
  if (above > kGpusMax) {
    return std::to_string(below);
  }
  return fmt::format("{} or {}", below, above);
}

absl::Status CheckGpuMultiples(const TrainingJobSpec& spec, int64_t gpus_per_pod) {
  if (spec.gpus < 1 || spec.gpus > kGpusMax) {
    return absl::InvalidArgumentError(
        fmt::format("spec.gpus: {} is not from 1 to {}", spec.gpus, kGpusMax));
  }
  if (spec.gpus % gpus_per_pod != 0) {
    return absl::InvalidArgumentError(
        fmt::format("spec.gpus: {} is not a multiple of gpusPerPod ({}): use {}, or set gpusPerPod",
                    spec.gpus, gpus_per_pod, NearestMultiples(spec.gpus, gpus_per_pod)));
  }
  if (!spec.min_gpus.has_value()) {
    return absl::OkStatus();
  }
  if (*spec.min_gpus > spec.gpus) {
    return absl::InvalidArgumentError(
        fmt::format("spec.minGpus: {} is more than gpus ({}): use at most {}", *spec.min_gpus,
                    spec.gpus, spec.gpus));
  }
  if (*spec.min_gpus % gpus_per_pod != 0) {
    return absl::InvalidArgumentError(
        fmt::format("spec.minGpus: {} is not a multiple of gpusPerPod ({}): use {}", *spec.min_gpus,
                    gpus_per_pod, NearestMultiples(*spec.min_gpus, gpus_per_pod)));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ProcessesPerPod(const TrainingJobSpec& spec, int64_t gpus_per_pod) {
  const int64_t processes =
      spec.processes_per_pod.value_or(spec.framework == Framework::kPlain ? 1 : gpus_per_pod);
  if (processes < 1 || gpus_per_pod % processes != 0) {
    return absl::InvalidArgumentError(
        fmt::format("spec.processesPerPod: gpusPerPod ({}) is not a multiple of {}: use {} or a "
                    "number that divides it",
                    gpus_per_pod, processes, gpus_per_pod));
  }
  return processes;
}

absl::Status CheckBlocks(const TrainingJobSpec& spec, int64_t gpus_per_pod) {
  for (size_t i = 0; i < spec.levels.size(); ++i) {
    const int64_t block = spec.levels[i].block_gpus;
    if (block < 1 || block % gpus_per_pod != 0) {
      return absl::InvalidArgumentError(
          fmt::format("spec.placement.levels[{}].blockGpus: {} is not a multiple of gpusPerPod "
                      "({}): use a multiple, or set gpusPerPod",
                      i, block, gpus_per_pod));
    }
    if (spec.gpus % block != 0) {
      return absl::InvalidArgumentError(
          fmt::format("spec.placement.levels[{}].blockGpus: gpus ({}) is not a multiple of {}: use "
                      "a number that divides gpus, or change gpus",
                      i, spec.gpus, block));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GangShape> ShapeOf(const TrainingJobSpec& spec, NodeGpus nodes,
                                  JobClass queue_default_class) {
  ASSIGN_OR_RETURN(const int64_t gpus_per_pod, GpusPerPod(spec, nodes));
  RETURN_IF_ERROR(CheckGpuMultiples(spec, gpus_per_pod));
  ASSIGN_OR_RETURN(const int64_t processes_per_pod, ProcessesPerPod(spec, gpus_per_pod));
  RETURN_IF_ERROR(CheckBlocks(spec, gpus_per_pod));
  return GangShape{.pods = spec.gpus / gpus_per_pod,
                   .gpus_per_pod = gpus_per_pod,
                   .processes_per_pod = processes_per_pod,
                   .job_class = spec.job_class.value_or(queue_default_class)};
}

absl::StatusOr<GangShape> ShapeOf(const TrainingJobSpec& spec, int64_t gpus_of_node,
                                  JobClass queue_default_class) {
  return ShapeOf(spec, NodeGpus{.commonest = gpus_of_node, .largest = gpus_of_node},
                 queue_default_class);
}

}  // namespace asterism::operators
