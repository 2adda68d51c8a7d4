// File: operator/job_plan.h
//
// The plan of a TrainingJob: whether its author wants one, what the planner is asked, and what its
// answer becomes in the status.
//
//   const PlanWish wish = WishOf(job);                                   // no_plan says why not
//   JobPlanQuestion question = QuestionOf(job, wish, offers, shape, level_names, settings);
//   if (SamePlanAsked(status.plan, question)) ...                        // nothing to be done
//   JobPlanAnswer answer = AnswerJobPlan(question);                      // off the core
//   answer.plan.gpus > 0, answer.reason, answer.message
//
// Of several products at most kPlannedProductsMax are priced, and the least GPU-seconds of a step
// win; of equals the earlier. Degrees that spec.plan or the command states are never changed.
//
// Errors: an answer without a plan has the reason of the condition, and a message that names field
// and way out. Thread-safety: pure. Cost: WishOf and QuestionOf some copies of JSON; the answer a
// search a product, up to about a tenth of a second each, and up to seconds where nothing fits.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/conditions.h"
#include "operator/gang_shape.h"
#include "operator/job_model.h"
#include "operator/plan_cluster.h"
#include "operator/training_job.h"
#include "planner/cluster_spec.h"

namespace asterism::operators {

inline constexpr size_t kPlannedProductsMax = 4;

// Reasons of the condition Planned.
namespace plan_reason {
inline constexpr std::string_view kNoModel = "NoModel";
inline constexpr std::string_view kPlanOff = "PlanOff";
inline constexpr std::string_view kNoArguments = "FrameworkTakesNone";
inline constexpr std::string_view kPlanning = "Planning";
inline constexpr std::string_view kApplied = "Applied";
inline constexpr std::string_view kInEnvironment = "InEnvironment";
inline constexpr std::string_view kAdvised = "Advised";
inline constexpr std::string_view kModelChanged = operators::kModelChanged;
inline constexpr std::string_view kInvalid = "InvalidModel";  // or degrees that exclude others
inline constexpr std::string_view kUnreadable = "ModelUnreadable";  // the ConfigMap
inline constexpr std::string_view kUnknownProduct = "UnknownProduct";
inline constexpr std::string_view kDoesNotFit = "DoesNotFit";
}  // namespace plan_reason

struct PlanWish {
  // Why there is to be none; empty: there is.
  std::string no_plan_reason;
  std::string no_plan_message;
  PlanMode mode = PlanMode::kOff;
  JobPlanSpec spec;
  planner::Framework framework = planner::Framework::kMegatron;
  // Of spec.model, spec.plan or the command; empty: they can be read.
  std::string error;

  bool wanted() const { return no_plan_reason.empty(); }
};

PlanWish WishOf(const TrainingJob& job);

struct PlanOffer {
  std::string product;
  planner::ClusterSpec cluster;
};

struct JobPlanQuestion {
  JobPlanSpec spec;
  planner::Framework framework = planner::Framework::kMegatron;
  GangShape shape;
  std::vector<PlanOffer> offers;
  std::shared_ptr<const planner::CalibrationSet> kept;  // as in PlannerSettings
  std::string unknown_products;  // that the job may have and the planner does not know
  // Of the ConfigMap; filled in by who reads it, with SetModelConfig. Without one: empty.
  std::string config_json;
  std::string model_digest;
  std::string spec_digest;
  std::string cluster_digest;
};

JobPlanQuestion QuestionOf(const TrainingJob& job, const PlanWish& wish,
                           const std::map<std::string, ProductLevels>& products,
                           const GangShape& shape, const std::vector<std::string>& level_names,
                           const PlannerSettings& settings);

std::string ModelDigestOf(std::string_view config_json);
void SetModelConfig(std::string config_json, JobPlanQuestion& question);

// Whether the plan answers the question. A job that has run keeps its plan while it says the same,
// whatever became of the cluster or of its model's ConfigMap: its checkpoints are cut by the
// degrees.
bool SamePlanAsked(const PlanStatus& plan, const JobPlanQuestion& question, bool has_run);

struct JobPlanAnswer {
  PlanStatus plan;     // gpus is 0: there is none, and:
  std::string reason;  // one of plan_reason
  std::string message;
};

JobPlanAnswer AnswerJobPlan(const JobPlanQuestion& question);

// Whether no room and no time cures that there is no plan.
bool NoPlanForGood(std::string_view reason);

// "tensor 4, data 16, micro-batch 2 on 64 of 64 GPUs: 1.84 s a step (1.56 to 2.12), 61.2 GiB a
// GPU".
std::string SummaryOf(const PlanStatus& plan);

}  // namespace asterism::operators
