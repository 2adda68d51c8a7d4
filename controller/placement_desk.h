// File: controller/placement_desk.h
//
// Answers the questions of asterism.v1.Placement that have one answer: looks up what the caller may
// ask, takes what is needed from the core, and works the rest out beside it.
//
//   PlacementDesk desk({clock, core, worker, plane, access});
//   desk.Place(caller, request, [](absl::StatusOr<v1::PlaceResponse> response) { ... });
//
// A dry run is decided by operator/placement_question.h, as the operator itself decides.
//
// Thread-safety: methods on the core executor; `done` is called once, there or on the worker. The
// desk outlives both executors' work. Cost: the core is held for 0.2 ms and 100 ns a node; reading
// a large job and deciding run on the worker.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/executor.h"
#include "controller/access_review.h"
#include "controller/control_plane.h"
#include "controller/hypothesis.h"
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
    base::Executor& worker;
    ControlPlane& plane;
    AccessReview& access;
  };
  using SharedCaller = std::shared_ptr<const Caller>;
  template <typename Request>
  using Shared = std::shared_ptr<const Request>;
  template <typename Response>
  using Done = absl::AnyInvocable<void(absl::StatusOr<Response>)>;

  explicit PlacementDesk(Dependencies dependencies) : dependencies_(dependencies) {}

  void Place(const SharedCaller& caller, const Shared<v1::PlaceRequest>& request,
             Done<v1::PlaceResponse> done);
  void WhatIf(const SharedCaller& caller, const Shared<v1::WhatIfRequest>& request,
              Done<v1::WhatIfResponse> done);
  void Explain(const SharedCaller& caller, const Shared<v1::ExplainRequest>& request,
               Done<v1::ExplainResponse> done);
  void GetLedger(const SharedCaller& caller, const Shared<v1::GetLedgerRequest>& request,
                 Done<v1::GetLedgerResponse> done);

 private:
  using Answered = Done<operators::PlacementAnswer>;

  // Rights, then the question, then the answer.
  void Decide(const SharedCaller& caller, Hypothesis hypothesis, Answered done);
  void Ask(Hypothesis hypothesis, Answered done);
  void TellJob(const v1::ExplainRequest& request, Done<v1::ExplainResponse> done);

  const Dependencies dependencies_;
  scheduler::LedgerImages images_;
};

}  // namespace asterism::controller
