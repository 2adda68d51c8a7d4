// File: operator/placement_question.h
//
// "Where would this job run, or why not", without starting it: the same admission, quota and engine
// as for a job that waits (Admit, DecideGang, Place), on an image of the ledger.
//
//   std::optional<ModelConfigMap> map = ModelMapOfAsked(job);      // any thread; who has one reads
//   it AskedFacts facts = FactsForAsked(job, environment, levels);                       // core
//   ASSIGN_OR_RETURN(AskedJob asked, AdmitAsked(job, facts));                         // any thread
//   PlacementQuestion question =
//       AskPlacement(std::move(asked), now, {}, environment, dispatcher, images);     // core
//   StatusOr<PlacementAnswer> answer = AnswerPlacement(question, changes, clock);     // any thread
//
// The job counts as new, whatever object of its name there is: it holds nothing, has no status and
// is as old as `now`. With a model it is planned as the operator would (job_plan.h), so that it
// asks for the GPUs, the product and the blocks of its plan; planned for the cluster as it is,
// without the changes that are supposed. Its pods are not shown to the API server, so what only a
// webhook or the schema of the CRD refuses is not found.
//
// Thread-safety: AskPlacement on the core executor; job and question are values, AdmitAsked and
// AnswerPlacement are pure. Cost: admitting that of Admit, and with a model a search, up to about a
// tenth of a second a product; facts of a job with a model 1 us a node and level after a change of
// nodes; asking 10 us, an image where the ledger
// has changed, and 10 ns for each class of nodes and rule of the template; answering 1 us a node
// and one Place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "operator/admission.h"
#include "operator/gang_dispatcher.h"
#include "operator/model_config_map.h"
#include "operator/placement_outcome.h"
#include "operator/plan_cluster.h"
#include "operator/training_job.h"
#include "scheduler/cluster_change.h"
#include "scheduler/gang_queue.h"
#include "scheduler/ledger_image.h"
#include "scheduler/quota.h"

namespace asterism::operators {

// More than any sane template has; each is held against each class of nodes.
inline constexpr size_t kAskedRulesMax = 1000;

// What is to be known of the cluster for a job that is asked about, as of one moment.
struct AskedFacts {
  AdmissionFacts admission;
  // For its plan; empty where it has no model.
  std::map<std::string, ProductLevels> products;
  PlannerSettings planner;
  absl::StatusOr<std::string> config_json = std::string();  // of its ConfigMap
};

// A job that is asked about, so far as it can be told without the ledger.
struct AskedJob {
  std::string name;  // "namespace/name"
  std::string queue;
  Admission admission;    // without its builder
  bool for_good = false;  // its refusal is one that nothing cures
};

// All that an answer needs.
struct PlacementQuestion {
  Admission admission;  // without its builder
  bool refused_for_good = false;
  scheduler::QueuedGang queued;
  scheduler::PlacementRequest request;
  scheduler::QuotaTree quota;
  std::shared_ptr<const scheduler::LedgerImage> image;  // null where the job was refused
  std::vector<scheduler::HeldAmount> released;          // of gangs that count as gone
  size_t queue_position = 0;                            // it would wait there, 1 is next
};

enum class PlacementDecision { kFits, kNotNow, kNever };

struct PlacementAnswer {
  PlacementDecision decision = PlacementDecision::kNever;
  NoPlace no_place;           // unless kFits
  PlacementStatus placement;  // of kFits, under epoch 1
  EffectiveStatus effective;  // zeros as far as the job was refused before
  int64_t queue_position = 0;
  absl::Duration decide;        // that quota and engine took
  std::string command_warning;  // empty: none
  std::string ignored_fields;   // empty: none
  uint64_t ledger_version = 0;
};

// Nothing: the job is not planned, or its model stands in it.
std::optional<ModelConfigMap> ModelMapOfAsked(const TrainingJob& job);
// Without config_json, which who has read it fills in.
AskedFacts FactsForAsked(const TrainingJob& job, const AdmissionEnvironment& environment,
                         ProductLevelsCache& levels);

// kInvalidArgument: its template has more than kAskedRulesMax rules about nodes.
absl::StatusOr<AskedJob> AdmitAsked(TrainingJob job, AskedFacts facts);

// `released`: uids of gangs that count as gone, sorted out by the caller.
PlacementQuestion AskPlacement(AskedJob job, absl::Time now, std::span<const std::string> released,
                               const AdmissionEnvironment& environment,
                               const GangDispatcher& dispatcher, scheduler::LedgerImages& images);

// kInvalidArgument: a change names something that is not there.
absl::StatusOr<PlacementAnswer> AnswerPlacement(const PlacementQuestion& question,
                                                std::span<const scheduler::ClusterChange> changes,
                                                const base::Clock& clock);

}  // namespace asterism::operators
