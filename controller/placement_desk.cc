#include "controller/placement_desk.h"

#include <set>
#include <string>
#include <utility>

#include "asterism/v1/placement.pb.h"
#include "base/strings.h"
#include "controller/ledger_message.h"
#include "controller/placement_messages.h"
#include "controller/visible_namespaces.h"
#include "fmt/format.h"

namespace asterism::controller {
namespace {

std::string KeyOfJob(std::string_view namespace_name, std::string_view name) {
  return fmt::format("{}/{}", namespace_name, name);
}

}  // namespace

absl::Status NotLeadingError(const ControlPlane& plane) {
  const std::string leader = plane.leader();
  return absl::UnavailableError(fmt::format(
      "this process does not lead, or its ledger is not rebuilt yet; {}: call the Service "
      "asterism-extender, which leads to the leader",
      leader.empty() ? "nobody is known to lead" : fmt::format("{} holds the Lease", leader)));
}

void PlacementDesk::Place(const SharedCaller& caller, const Shared<v1::PlaceRequest>& request,
                          Done<v1::PlaceResponse> done) {
  dependencies_.worker.Post([this, caller, request, done = std::move(done)]() mutable {
    absl::StatusOr<operators::TrainingJob> job = ReadAskedJob(request->training_job_json());
    if (!job.ok()) {
      done(job.status());
      return;
    }
    Decide(caller, {.job = *std::move(job)},
           [done = std::move(done)](absl::StatusOr<operators::PlacementAnswer> answer) mutable {
             if (!answer.ok()) {
               done(answer.status());
               return;
             }
             v1::PlaceResponse response;
             FillDecision(*answer, *response.mutable_decision());
             done(std::move(response));
           });
  });
}

void PlacementDesk::WhatIf(const SharedCaller& caller, const Shared<v1::WhatIfRequest>& request,
                           Done<v1::WhatIfResponse> done) {
  dependencies_.worker.Post([this, caller, request, done = std::move(done)]() mutable {
    absl::StatusOr<Hypothesis> hypothesis = ReadHypothesis(*request);
    if (!hypothesis.ok()) {
      done(hypothesis.status());
      return;
    }
    Decide(caller, *std::move(hypothesis),
           [done = std::move(done)](absl::StatusOr<operators::PlacementAnswer> answer) mutable {
             if (!answer.ok()) {
               done(answer.status());
               return;
             }
             v1::WhatIfResponse response;
             FillDecision(*answer, *response.mutable_decision());
             done(std::move(response));
           });
  });
}

void PlacementDesk::Decide(const SharedCaller& caller, Hypothesis hypothesis, Answered done) {
  // Who may create a job may know where it would run; what others hold, who may read them.
  std::vector<AccessRight> accesses = {
      {.verb = "create", .namespace_name = hypothesis.job.meta.namespace_name}};
  for (const kube::ObjectName& job : hypothesis.ended_jobs) {
    accesses.push_back({.verb = "get", .namespace_name = job.namespace_name, .name = job.name});
  }
  dependencies_.core.Post([this, caller, accesses = std::move(accesses),
                           hypothesis = std::move(hypothesis), done = std::move(done)]() mutable {
    dependencies_.access.ReviewAll(caller, std::move(accesses),
                                   [this, hypothesis = std::move(hypothesis),
                                    done = std::move(done)](const absl::Status& status) mutable {
                                     if (!status.ok()) {
                                       done(status);
                                       return;
                                     }
                                     Ask(std::move(hypothesis), std::move(done));
                                   });
  });
}

void PlacementDesk::Ask(Hypothesis hypothesis, Answered done) {
  const ControlPlane& plane = dependencies_.plane;
  if (!plane.leading() || plane.jobs() == nullptr) {
    done(NotLeadingError(plane));
    return;
  }
  std::set<std::string> released;  // a job that is named twice ends once
  for (const kube::ObjectName& name : hypothesis.ended_jobs) {
    const auto job = plane.job_store().Find(KeyOfJob(name.namespace_name, name.name));
    if (job == nullptr) {
      done(absl::InvalidArgumentError(
          fmt::format("remove_job: there is no TrainingJob {}/{}: see `kubectl get tj -A`",
                      name.namespace_name, name.name)));
      return;
    }
    released.insert(job->meta.uid);
  }
  const std::vector<std::string> uids(released.begin(), released.end());
  operators::PlacementQuestion question =
      operators::AskPlacement(std::move(hypothesis.job), dependencies_.clock.Now(), uids,
                              plane.environment(), plane.jobs()->dispatcher(), images_);
  dependencies_.worker.Post([this, question = std::move(question),
                             changes = std::move(hypothesis.changes),
                             done = std::move(done)]() mutable {
    done(operators::AnswerPlacement(question, changes, dependencies_.clock));
  });
}

void PlacementDesk::Explain(const SharedCaller& caller, const Shared<v1::ExplainRequest>& request,
                            Done<v1::ExplainResponse> done) {
  const v1::JobName& job = request->job();
  if (job.namespace_().empty() || job.name().empty()) {
    done(absl::InvalidArgumentError(
        fmt::format("job.{}: is missing: give namespace and name of a TrainingJob",
                    job.namespace_().empty() ? "namespace" : "name")));
    return;
  }
  dependencies_.access.Review(
      caller, {.verb = "get", .namespace_name = job.namespace_(), .name = job.name()},
      [this, request, done = std::move(done)](const absl::Status& status) mutable {
        if (!status.ok()) {
          done(status);
          return;
        }
        TellJob(*request, std::move(done));
      });
}

void PlacementDesk::TellJob(const v1::ExplainRequest& request, Done<v1::ExplainResponse> done) {
  const ControlPlane& plane = dependencies_.plane;
  const operators::JobController* jobs = plane.jobs();
  if (!plane.leading() || jobs == nullptr) {
    done(NotLeadingError(plane));
    return;
  }
  const std::string key = KeyOfJob(request.job().namespace_(), request.job().name());
  const auto job = plane.job_store().Find(key);
  if (job == nullptr) {
    done(absl::NotFoundError(
        fmt::format("there is no TrainingJob {}: see `kubectl get tj -A`", key)));
    return;
  }
  const auto known = jobs->jobs().find(job->meta.uid);
  const size_t position = jobs->dispatcher().queue().Position(job->meta.uid);
  v1::ExplainResponse response;
  FillExplanation(*job, known == jobs->jobs().end() ? job->status : known->second->status,
                  static_cast<int64_t>(position), response);
  done(std::move(response));
}

void PlacementDesk::GetLedger(const SharedCaller& caller,
                              const Shared<v1::GetLedgerRequest>& request,
                              Done<v1::GetLedgerResponse> done) {
  const auto answer = [this, request](const std::shared_ptr<const scheduler::LedgerView>& view,
                                      const VisibleNamespaces& visible,
                                      Done<v1::GetLedgerResponse> told) {
    dependencies_.worker.Post([this, request, view, visible, told = std::move(told)]() mutable {
      v1::GetLedgerResponse response;
      const absl::Status status =
          FillLedger(*view, dependencies_.plane.gpu_resources(), *request, visible, response);
      if (!status.ok()) {
        told(status);
        return;
      }
      told(std::move(response));
    });
  };
  dependencies_.access.Review(
      caller, {.verb = "get", .resource = "clustertopologies", .name = "cluster"},
      [this, caller, request, answer, done = std::move(done)](const absl::Status& status) mutable {
        const auto view = dependencies_.plane.view();
        if (!status.ok() || !dependencies_.plane.leading() || view == nullptr) {
          done(status.ok() ? NotLeadingError(dependencies_.plane) : status);
          return;
        }
        if (request->without_gangs()) {
          answer(view, {}, std::move(done));
          return;
        }
        std::set<std::string> namespaces;
        for (const auto& [uid, gang] : view->gangs) {
          namespaces.emplace(NamespaceOf(gang->name));
        }
        FindVisibleNamespaces(dependencies_.access, caller, std::move(namespaces),
                              [view, answer, done = std::move(done)](
                                  const absl::StatusOr<VisibleNamespaces>& visible) mutable {
                                if (!visible.ok()) {
                                  done(visible.status());
                                  return;
                                }
                                answer(view, *visible, std::move(done));
                              });
      });
}

}  // namespace asterism::controller
