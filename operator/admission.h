// File: operator/admission.h
//
// Whether a TrainingJob may wait for GPUs, and what it will ask the placement engine for: the
// checks that the CRD's own rules cannot make, because they need the queues, the levels and the
// nodes.
//
//   Admission admission = Admit(job, job.status, FactsFor(job, environment));
//   if (admission.refusal) ...            // a condition names field and remedy
//   Place(admission.request, ledger);
//
// Thread-safety: FactsFor where the environment lives; the facts are a value, and Admit is pure.
// Cost: FactsFor 1 us; Admit about 0.2 ms (one pod body is built and read back), and 0.2 us a byte
// of a large job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kube/informer.h"
#include "kube/namespace.h"
#include "kube/priority_class.h"
#include "operator/cluster_feed.h"
#include "operator/direct_commit.h"
#include "operator/gang_shape.h"
#include "operator/job_reconciler.h"
#include "operator/plan_cluster.h"
#include "operator/pod_builder.h"
#include "operator/pod_needs.h"
#include "operator/queue.h"
#include "operator/template_fit.h"
#include "operator/training_job.h"
#include "scheduler/placement.h"
#include "scheduler/resources.h"

namespace asterism::operators {

struct AdmissionEnvironment {
  const kube::Store<Queue>& queues;
  const kube::Store<kube::Namespace>& namespaces;
  const kube::Store<kube::PriorityClass>& priority_classes;
  ClusterFeed& feed;  // gives resource names their slots
  std::vector<std::string> level_names;
  std::vector<std::string> resource_names;
  PodSettings pods;
  CommitMode commit = CommitMode::kScheduler;  // of queues that state none
  PlannerSettings planner;
};

// All that an admission has to know of the cluster, as of one moment.
struct AdmissionFacts {
  kube::Shared<Queue> queue;            // null: there is none of the job's
  kube::Shared<kube::Namespace> space;  // null: it is not known
  std::optional<int32_t> priority;      // absent: there is no PriorityClass of the job's
  NodeGpus node_gpus;                   // of the job's resource
  scheduler::ResourceTable resources;
  std::vector<std::string> level_names;
  std::vector<std::string> resource_names;
  PodSettings pods;
  CommitMode commit = CommitMode::kScheduler;  // where the queue states none
  // Handed to the job's framework; null: none. Outlives the call of Admit.
  const PlanStatus* plan = nullptr;
};

struct Admission {
  std::optional<Refusal> refusal;
  GangShape shape;
  std::optional<PodBuilder> builder;  // set unless refused
  // Without node_classes: which classes there are changes, so whoever places takes them from `fit`.
  scheduler::PlacementRequest request;
  TemplateFit fit;  // which nodes the pod's own rules allow
  int32_t priority = 0;
  std::string command_warning;
  std::string ignored_fields;                  // a warning, too
  CommitMode commit = CommitMode::kScheduler;  // what is asked for
  std::string not_direct;                      // why kDirect cannot be had; empty: it can
};

// Amounts, nodes and the way to commit, from a pod; again from what the API server made of it.
void ApplyPodNeeds(const PodNeeds& needs, const scheduler::ResourceTable& resources,
                   Admission& admission);

// A job that has a home keeps the shape it was placed with (status.effective), whatever the
// defaults would give now.
Admission Admit(const TrainingJob& job, const TrainingJobStatus& status,
                const AdmissionFacts& facts);

// What that needs to know: by the names in its spec.
AdmissionFacts FactsFor(const TrainingJob& job, const AdmissionEnvironment& environment);

}  // namespace asterism::operators
