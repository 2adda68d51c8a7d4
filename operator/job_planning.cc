// What a job's visit does about its plan: whether one is wanted, the model's ConfigMap, the
// planner's thread, and its answer.
#include <algorithm>
#include <memory>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "operator/conditions.h"
#include "operator/job_controller.h"
#include "operator/model_config_map.h"
#include "operator/plan_launch.h"

namespace asterism::operators {
namespace {

constexpr absl::Duration kModelRetryFirst = absl::Seconds(1);
constexpr absl::Duration kModelRetryMax = absl::Seconds(60);
// How often the ConfigMap of a model is looked at again: a plan that nothing runs with yet follows
// it, one that runs only tells.
constexpr absl::Duration kModelPeriod = absl::Seconds(30);
constexpr absl::Duration kModelPeriodPlaced = absl::Minutes(5);

// What becomes of a plan that there is.
void TellPlan(const TrainingJob& job, const PlanWish& wish, const PlanStatus& plan,
              JobPlanning& planning) {
  planning.made = true;
  planning.refused = false;
  planning.message = SummaryOf(plan);
  if (wish.mode == PlanMode::kAdvise) {
    planning.reason = plan_reason::kAdvised;
    planning.message += "; spec.plan.mode is Advise: the job runs with its own arguments";
    return;
  }
  const PlanHandOver hand_over = HandOverOf(job);
  planning.reason =
      hand_over == PlanHandOver::kAppended ? plan_reason::kApplied : plan_reason::kInEnvironment;
  if (hand_over != PlanHandOver::kAppended) {
    planning.message +=
        fmt::format("; {}: nothing is appended, the arguments stand in ${}",
                    hand_over == PlanHandOver::kShell ? "the command is a shell's"
                                                      : "the image decides what runs",
                    kPlanArgumentsVariable);
  }
}

// There is none to be had. Who only wanted advice runs without.
void TellNoPlan(const PlanWish& wish, std::string_view reason, std::string message,
                JobPlanning& planning) {
  planning.made = false;
  planning.pending = false;
  planning.refused = wish.mode == PlanMode::kApply;
  planning.reason = reason;
  planning.message = std::move(message);
}

// All that the question says.
std::string AskedOf(const JobPlanQuestion& question) {
  return question.spec_digest + question.cluster_digest + question.model_digest;
}

}  // namespace

const PlanWish& JobController::WishFor(JobState& state) {
  JobPlanning& planning = state.planning;
  if (planning.generation != state.meta().generation) {
    planning = {.generation = state.meta().generation, .wish = WishOf(*state.object)};
  }
  return planning.wish;
}

const PlanStatus* JobController::AppliedPlan(JobState& state) {
  const PlanWish& wish = WishFor(state);
  return state.status.plan.gpus > 0 && wish.wanted() && wish.mode == PlanMode::kApply
             ? &state.status.plan
             : nullptr;
}

// Levels of all products, as of now.
const std::map<std::string, ProductLevels>& JobController::LevelsOfProducts(size_t gpu_slot) {
  feed_.Refresh();
  return product_levels_.Of(feed_.ledger(), gpu_slot);
}

// A placed job keeps the plan that its pods were made with. True when the admission has to be made
// anew.
bool JobController::RefreshPlan(JobState& state) {
  const PlanWish& wish = WishFor(state);
  JobPlanning& planning = state.planning;
  if (!state.status.placement.runs.empty()) {
    if (state.status.plan.gpus > 0) {
      TellPlan(*state.object, wish, state.status.plan, planning);
      if (!state.status.plan.model_digest.empty()) {
        LookAtModel(state, kModelPeriodPlaced);
        TellChangedModel(state);
      }
    }
    return false;
  }
  if (state.admission.refusal) {
    return false;
  }
  const bool had_plan = state.status.plan.gpus > 0;
  if (!wish.wanted() || !wish.error.empty()) {
    state.status.plan = {};
    TellNoPlan(wish, wish.wanted() ? plan_reason::kInvalid : std::string_view(wish.no_plan_reason),
               wish.wanted() ? wish.error : wish.no_plan_message, planning);
    planning.refused = planning.refused && wish.wanted();
    return had_plan;
  }
  JobPlanQuestion question =
      QuestionOf(*state.object, wish, LevelsOfProducts(state.admission.request.gpu_slot),
                 state.admission.shape, environment_.level_names, environment_.planner);
  if (!TakeModel(state, question)) {
    return had_plan && state.status.plan.gpus == 0;
  }
  if (SamePlanAsked(state.status.plan, question, state.status.placement.epoch > 0)) {
    TellPlan(*state.object, wish, state.status.plan, planning);
    TellChangedModel(state);
    planning.pending = false;
    return false;
  }
  const std::string asked = AskedOf(question);
  if (planning.asked == asked) {
    return false;  // it is being made, or there is none
  }
  planning.asked = asked;
  planning.pending = true;
  if (!planning.made) {
    planning.reason = plan_reason::kPlanning;
    planning.message = "the planner is asked";
  }
  AskPlanner(state, std::move(question));
  return false;
}

// The model of a job that waits, where a ConfigMap has it. False: the question cannot be asked, and
// the job goes on with the plan it has, waits for the file, or is told why there is none.
bool JobController::TakeModel(JobState& state, JobPlanQuestion& question) {
  JobPlanning& planning = state.planning;
  if (!ModelConfigMapOf(planning.wish)) {
    return true;
  }
  LookAtModel(state, kModelPeriod);
  if (planning.config_json) {
    SetModelConfig(*planning.config_json, question);
    return true;
  }
  const PlanStatus& plan = state.status.plan;
  if (plan.gpus > 0 && plan.spec_digest == question.spec_digest) {
    TellPlan(*state.object, planning.wish, plan, planning);
    planning.pending = planning.config_error.empty();
  } else if (planning.config_error.empty()) {
    planning.pending = true;
    planning.reason = plan_reason::kPlanning;
    planning.message = "the config.json of the model is read";
  } else {
    state.status.plan = {};
    TellNoPlan(planning.wish, plan_reason::kUnreadable, planning.config_error, planning);
  }
  return false;
}

// The plan is not that of the model any more, and stays.
void JobController::TellChangedModel(JobState& state) {
  JobPlanning& planning = state.planning;
  const std::string& planned = state.status.plan.model_digest;
  if (planned.empty() || !planning.config_json || planned == ModelDigestOf(*planning.config_json)) {
    return;
  }
  planning.reason = plan_reason::kModelChanged;
  planning.message += fmt::format(
      "; ConfigMap \"{}\" says something else since: a job that has started keeps its plan; make "
      "the job anew to have the new model planned",
      planning.wish.spec.model->config_map.substr(0, 253));
}

// Reads the job's ConfigMap when it is time for it.
void JobController::LookAtModel(JobState& state, absl::Duration period) {
  JobPlanning& planning = state.planning;
  if (planning.reading || !ModelConfigMapOf(planning.wish)) {
    return;
  }
  const absl::Duration left = planning.read_again - clock_.SteadyNow();
  if (left > absl::ZeroDuration()) {
    Remind(state, left);
  } else {
    ReadModel(state, period);
  }
}

void JobController::ReadModel(JobState& state, absl::Duration period) {
  state.planning.reading = true;
  ReadModelConfig(client_, state.meta().namespace_name, *ModelConfigMapOf(state.planning.wish),
                  alive_.Wrap([this, uid = state.meta().uid, generation = state.planning.generation,
                               period](absl::StatusOr<std::string> text) {
                    const auto found = jobs_.find(uid);
                    if (found == jobs_.end() || found->second->planning.generation != generation) {
                      return;  // it is read anew for what the job says by now
                    }
                    JobPlanning& planning = found->second->planning;
                    planning.reading = false;
                    absl::Duration next = period;
                    if (text.ok()) {
                      planning.failures = 0;
                      planning.config_error.clear();
                      planning.config_json = *std::move(text);
                    } else {
                      planning.config_error = base::ToStd(text.status().message());
                      next = std::min(kModelRetryFirst * (1 << std::min(planning.failures++, 10)),
                                      kModelRetryMax);
                    }
                    planning.read_again = clock_.SteadyNow() + next;
                    MarkDirty(uid);
                  }));
}

void JobController::AskPlanner(JobState& state, JobPlanQuestion question) {
  auto deliver = alive_.Wrap([this, uid = state.meta().uid, asked = AskedOf(question),
                              begin = clock_.SteadyNow()](JobPlanAnswer answer) {
    metrics_.plan_seconds.With({}).Observe(clock_.SteadyNow() - begin);
    OnPlanned(uid, asked, std::move(answer));
  });
  base::Executor& thread = options_.planner == nullptr ? executor_ : *options_.planner;
  thread.Post(
      [&core = executor_, question = std::move(question), deliver = std::move(deliver)]() mutable {
        core.Post([answer = AnswerJobPlan(question), deliver = std::move(deliver)]() mutable {
          deliver(std::move(answer));
        });
      });
}

void JobController::OnPlanned(const std::string& uid, const std::string& asked,
                              JobPlanAnswer answer) {
  const auto found = jobs_.find(uid);
  if (found == jobs_.end() || found->second->planning.asked != asked ||
      !found->second->status.placement.runs.empty()) {
    return;  // it says something else by now
  }
  JobState& state = *found->second;
  JobPlanning& planning = state.planning;
  planning.pending = false;
  if (answer.plan.gpus > 0) {
    state.status.plan = std::move(answer.plan);
    TellPlan(*state.object, planning.wish, state.status.plan, planning);
    base::LogInfo("planned",
                  {{"gang", state.meta().Key()}, {"plan", SummaryOf(state.status.plan)}});
  } else {
    state.status.plan = {};
    TellNoPlan(planning.wish, answer.reason, std::move(answer.message), planning);
  }
  metrics_.plans.With({planning.reason}).Add();
  state.admission_generation = -1;  // its pods are others now
  MarkDirty(uid);
}

}  // namespace asterism::operators
