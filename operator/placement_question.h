// File: operator/placement_question.h
//
// "Where would this job run, or why not", without starting it: the same admission, quota and engine
// as for a job that waits (Admit, DecideGang, Place), on an image of the ledger.
//
//   AdmissionFacts facts = FactsFor(job, environment);                                // core
//   ASSIGN_OR_RETURN(AskedJob asked, AdmitAsked(job, facts));                         // any thread
//   PlacementQuestion question =
//       AskPlacement(std::move(asked), now, {}, environment, dispatcher, images);     // core
//   StatusOr<PlacementAnswer> answer = AnswerPlacement(question, changes, clock);     // any thread
//
// The job counts as new, whatever object of its name there is: it holds nothing, has no status and
// is as old as `now`. Its pods are not shown to the API server, so what only a webhook or the
// schema of the CRD refuses is not found.
//
// Thread-safety: AskPlacement on the core executor; job and question are values, AdmitAsked and
// AnswerPlacement are pure. Cost: admitting that of Admit; asking 10 us, an image where the ledger
// has changed, and 10 ns for each class of nodes and rule of the template; answering 1 us a node
// and one Place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "operator/admission.h"
#include "operator/gang_dispatcher.h"
#include "operator/placement_outcome.h"
#include "operator/training_job.h"
#include "scheduler/cluster_change.h"
#include "scheduler/gang_queue.h"
#include "scheduler/ledger_image.h"
#include "scheduler/quota.h"

namespace asterism::operators {

// More than any sane template has; each is held against each class of nodes.
inline constexpr size_t kAskedRulesMax = 1000;

// A job that is asked about, so far as it can be told without the ledger.
struct AskedJob {
  std::string name;  // "namespace/name"
  std::string queue;
  Admission admission;  // without its builder
};

// All that an answer needs.
struct PlacementQuestion {
  Admission admission;  // without its builder
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

// kInvalidArgument: its template has more than kAskedRulesMax rules about nodes.
absl::StatusOr<AskedJob> AdmitAsked(TrainingJob job, const AdmissionFacts& facts);

// `released`: uids of gangs that count as gone, sorted out by the caller.
PlacementQuestion AskPlacement(AskedJob job, absl::Time now, std::span<const std::string> released,
                               const AdmissionEnvironment& environment,
                               const GangDispatcher& dispatcher, scheduler::LedgerImages& images);

// kInvalidArgument: a change names something that is not there.
absl::StatusOr<PlacementAnswer> AnswerPlacement(const PlacementQuestion& question,
                                                std::span<const scheduler::ClusterChange> changes,
                                                const base::Clock& clock);

}  // namespace asterism::operators
