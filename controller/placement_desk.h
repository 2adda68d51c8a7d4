// File: controller/placement_desk.h
//
// Answers the questions of asterism.v1.Placement that have one answer: looks up what the caller may
// ask, takes what is needed from the core, and works the rest out beside it.
//
//   PlacementDesk desk({clock, core, turns, client, plane, access});
//   desk.Place(call, request, [](absl::StatusOr<v1::PlaceResponse> response) { ... });
//
// A dry run is decided by operator/placement_question.h, as the operator itself decides: with a
// plan where the job has a model, whose config.json is read with the operator's rights; who may
// create the job may have it read anyway.
//
// Rights come first: before a job is read there is only a look for its name. Whatever is left to do
// for a call that has ended is skipped, and then nobody hears of it.
//
// Thread-safety: Place and WhatIf in the caller's turn on the worker, the others on the core
// executor; `done` is called at most once, on either. The desk outlives both executors' work. Cost:
// the core is held for some 20 us and 100 ns a node, however large the job is; reading it, planning
// it, building its pod and deciding run on the worker.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/executor.h"
#include "controller/access_review.h"
#include "controller/call_admission.h"
#include "controller/caller_turns.h"
#include "controller/control_plane.h"
#include "controller/hypothesis.h"
#include "kube/client.h"
#include "operator/placement_question.h"

namespace asterism::v1 {
class ExplainRequest;
class ExplainResponse;
class GetLedgerRequest;
class GetLedgerResponse;
class PlaceRequest;
class PlaceResponse;
class WhatIfRequest;
class WhatIfResponse;
}  // namespace asterism::v1

namespace asterism::controller {

// kUnavailable, with the way to the leader; for a process that does not lead.
absl::Status NotLeadingError(const ControlPlane& plane);

class PlacementDesk {
 public:
  struct Dependencies {
    const base::Clock& clock;
    base::Executor& core;
    CallerTurns& turns;
    kube::Client& client;
    ControlPlane& plane;
    AccessReview& access;
  };
  using SharedCall = std::shared_ptr<AdmittedCall>;
  template <typename Request>
  using Shared = std::shared_ptr<const Request>;
  template <typename Response>
  using Done = absl::AnyInvocable<void(absl::StatusOr<Response>)>;

  explicit PlacementDesk(Dependencies dependencies) : dependencies_(dependencies) {}

  void Place(const SharedCall& call, Shared<v1::PlaceRequest> request,
             Done<v1::PlaceResponse> done);
  void WhatIf(const SharedCall& call, Shared<v1::WhatIfRequest> request,
              Done<v1::WhatIfResponse> done);
  void Explain(const SharedCall& call, Shared<v1::ExplainRequest> request,
               Done<v1::ExplainResponse> done);
  void GetLedger(const SharedCall& call, Shared<v1::GetLedgerRequest> request,
                 Done<v1::GetLedgerResponse> done);

 private:
  using Answered = Done<operators::PlacementAnswer>;

  // What is to be different from now.
  struct Thought {
    std::vector<EndedJob> ended_jobs;
    std::vector<scheduler::ClusterChange> changes;
  };
  using Read = absl::AnyInvocable<absl::StatusOr<Hypothesis>()>;

  // Skip what nobody waits for any more.
  void OnCore(const SharedCall& call, base::Work work);
  void InTurn(const SharedCall& call, base::Work work);
  template <typename Request, typename Response>
  void DecideRequest(const SharedCall& call, Shared<Request> request, Done<Response> done);
  // Rights, the job, what the cluster says about it, the admission, the question, the answer.
  void Decide(const SharedCall& call, const AskedNames& names, Read read, Answered done);
  void FindModel(const SharedCall& call, Hypothesis hypothesis, Answered done);
  void FindFacts(const SharedCall& call, Hypothesis hypothesis,
                 absl::StatusOr<std::string> config_json, Answered done);
  void Admit(const SharedCall& call, Hypothesis hypothesis, operators::AskedFacts facts,
             Answered done);
  void Ask(const SharedCall& call, operators::AskedJob job, Thought thought, Answered done);
  void TellJob(const v1::ExplainRequest& request, Done<v1::ExplainResponse> done);

  const Dependencies dependencies_;
  scheduler::LedgerImages images_;
  operators::ProductLevelsCache levels_;  // on the core
};

}  // namespace asterism::controller
