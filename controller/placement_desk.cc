#include "controller/placement_desk.h"

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "asterism/v1/placement.pb.h"
#include "base/strings.h"
#include "controller/ledger_message.h"
#include "controller/object_names.h"
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

void PlacementDesk::OnCore(const SharedCall& call, base::Work work) {
  dependencies_.core.Post([call, work = std::move(work)]() mutable {
    if (call->wanted()) {
      work();
    }
  });
}

void PlacementDesk::InTurn(const SharedCall& call, base::Work work) {
  dependencies_.turns.Post(call->caller()->key, [call, work = std::move(work)]() mutable {
    if (call->wanted()) {
      work();
    }
  });
}

template <typename Request, typename Response>
void PlacementDesk::DecideRequest(const SharedCall& call, Shared<Request> request,
                                  Done<Response> done) {
  const absl::StatusOr<AskedNames> names = ReadAskedNames(*request);
  if (!names.ok()) {
    done(names.status());
    return;
  }
  Decide(
      call, *names, [request = std::move(request)] { return ReadHypothesis(*request); },
      [done = std::move(done)](absl::StatusOr<operators::PlacementAnswer> answer) mutable {
        if (!answer.ok()) {
          done(answer.status());
          return;
        }
        Response response;
        FillDecision(*answer, *response.mutable_decision());
        done(std::move(response));
      });
}

void PlacementDesk::Place(const SharedCall& call, Shared<v1::PlaceRequest> request,
                          Done<v1::PlaceResponse> done) {
  DecideRequest(call, std::move(request), std::move(done));
}

void PlacementDesk::WhatIf(const SharedCall& call, Shared<v1::WhatIfRequest> request,
                           Done<v1::WhatIfResponse> done) {
  DecideRequest(call, std::move(request), std::move(done));
}

void PlacementDesk::Decide(const SharedCall& call, const AskedNames& names, Read read,
                           Answered done) {
  // Who may create a job may know where it would run; what others hold, who may read them.
  std::vector<AccessRight> accesses = {
      {.verb = "create", .namespace_name = names.job.namespace_name}};
  for (const EndedJob& job : names.ended_jobs) {
    accesses.push_back(
        {.verb = "get", .namespace_name = job.name.namespace_name, .name = job.name.name});
  }
  auto read_and_ask = [this, call, read = std::move(read),
                       done = std::move(done)](const absl::Status& allowed) mutable {
    if (!allowed.ok()) {
      done(allowed);
      return;
    }
    InTurn(call, [this, call, read = std::move(read), done = std::move(done)]() mutable {
      absl::StatusOr<Hypothesis> hypothesis = read();
      if (!hypothesis.ok()) {
        done(hypothesis.status());
        return;
      }
      FindModel(call, *std::move(hypothesis), std::move(done));
    });
  };
  OnCore(call, [this, call, accesses = std::move(accesses),
                read_and_ask = std::move(read_and_ask)]() mutable {
    dependencies_.access.ReviewAll(call->caller(), std::move(accesses), std::move(read_and_ask));
  });
}

void PlacementDesk::FindModel(const SharedCall& call, Hypothesis hypothesis, Answered done) {
  const std::optional<operators::ModelConfigMap> map = operators::ModelMapOfAsked(hypothesis.job);
  std::string name_space = hypothesis.names.job.namespace_name;
  auto go_on = [this, call, hypothesis = std::move(hypothesis),
                done = std::move(done)](absl::StatusOr<std::string> config_json) mutable {
    if (call->wanted()) {
      FindFacts(call, std::move(hypothesis), std::move(config_json), std::move(done));
    }
  };
  if (!map) {
    OnCore(call, [go_on = std::move(go_on)]() mutable { go_on(std::string()); });
    return;
  }
  OnCore(call, [this, map = *map, name_space = std::move(name_space),
                go_on = std::move(go_on)]() mutable {
    operators::ReadModelConfig(dependencies_.client, std::move(name_space), map, std::move(go_on));
  });
}

void PlacementDesk::FindFacts(const SharedCall& call, Hypothesis hypothesis,
                              absl::StatusOr<std::string> config_json, Answered done) {
  if (!dependencies_.plane.leading()) {
    done(NotLeadingError(dependencies_.plane));
    return;
  }
  operators::AskedFacts facts =
      operators::FactsForAsked(hypothesis.job, dependencies_.plane.environment(), levels_);
  facts.config_json = std::move(config_json);
  InTurn(call, [this, call, hypothesis = std::move(hypothesis), facts = std::move(facts),
                done = std::move(done)]() mutable {
    Admit(call, std::move(hypothesis), std::move(facts), std::move(done));
  });
}

void PlacementDesk::Admit(const SharedCall& call, Hypothesis hypothesis,
                          operators::AskedFacts facts, Answered done) {
  absl::StatusOr<operators::AskedJob> asked =
      operators::AdmitAsked(std::move(hypothesis.job), std::move(facts));
  if (!asked.ok()) {
    done(absl::InvalidArgumentError(
        fmt::format("training_job_json: {}", base::ToStd(asked.status().message()))));
    return;
  }
  OnCore(call,
         [this, call, job = *std::move(asked),
          thought = Thought{std::move(hypothesis.names.ended_jobs), std::move(hypothesis.changes)},
          done = std::move(done)]() mutable {
           Ask(call, std::move(job), std::move(thought), std::move(done));
         });
}

void PlacementDesk::Ask(const SharedCall& call, operators::AskedJob job, Thought thought,
                        Answered done) {
  const ControlPlane& plane = dependencies_.plane;
  if (!plane.leading() || plane.jobs() == nullptr) {
    done(NotLeadingError(plane));
    return;
  }
  std::set<std::string> released;  // a job that is named twice ends once
  for (const EndedJob& ended : thought.ended_jobs) {
    const std::string key = KeyOfJob(ended.name.namespace_name, ended.name.name);
    const auto known = plane.job_store().Find(key);
    if (known == nullptr) {
      done(absl::InvalidArgumentError(fmt::format(
          "{}: there is no TrainingJob {}: see `kubectl get tj -A`", ended.field, key)));
      return;
    }
    released.insert(known->meta.uid);
  }
  const std::vector<std::string> uids(released.begin(), released.end());
  operators::PlacementQuestion question =
      operators::AskPlacement(std::move(job), dependencies_.clock.Now(), uids, plane.environment(),
                              plane.jobs()->dispatcher(), images_);
  InTurn(call, [this, question = std::move(question), changes = std::move(thought.changes),
                done = std::move(done)]() mutable {
    done(operators::AnswerPlacement(question, changes, dependencies_.clock));
  });
}

void PlacementDesk::Explain(const SharedCall& call, Shared<v1::ExplainRequest> request,
                            Done<v1::ExplainResponse> done) {
  const v1::JobName& job = request->job();
  absl::Status named = CheckNamespaceName("job.namespace", job.namespace_());
  named.Update(CheckObjectName("job.name", job.name()));
  if (!named.ok()) {
    done(named);
    return;
  }
  dependencies_.access.Review(
      call->caller(), {.verb = "get", .namespace_name = job.namespace_(), .name = job.name()},
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

void PlacementDesk::GetLedger(const SharedCall& call, Shared<v1::GetLedgerRequest> request,
                              Done<v1::GetLedgerResponse> done) {
  const auto answer = [this, call, request](
                          const std::shared_ptr<const scheduler::LedgerView>& view,
                          const VisibleNamespaces& visible, Done<v1::GetLedgerResponse> told) {
    InTurn(call, [this, request, view, visible, told = std::move(told)]() mutable {
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
      call->caller(), {.verb = "get", .resource = "clustertopologies", .name = "cluster"},
      [this, call, request, answer, done = std::move(done)](const absl::Status& status) mutable {
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
        FindVisibleNamespaces(dependencies_.access, call->caller(), std::move(namespaces),
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
