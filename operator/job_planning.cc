// What a job's visit does about its plan: whether one is wanted, the model's ConfigMap, the
// planner's thread, and its answer.
#include <algorithm>
#include <memory>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "kube/decoder.h"
#include "nlohmann/json.hpp"
#include "operator/conditions.h"
#include "operator/job_controller.h"
#include "operator/json_fields.h"
#include "operator/plan_launch.h"

namespace asterism::operators {
namespace {

constexpr kube::ResourceType kConfigMapsAsJson{"",          "v1", "configmaps",
                                               "ConfigMap", true, /*protobuf=*/false};
constexpr absl::Duration kModelRetryFirst = absl::Seconds(1);
constexpr absl::Duration kModelRetryMax = absl::Seconds(60);

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

absl::StatusOr<std::string> KeyOfConfigMap(std::string_view body, std::string_view key) {
  absl::StatusOr<nlohmann::json> map = ParseObjectText(body, "ConfigMap");
  if (!map.ok()) {
    return map.status();
  }
  const nlohmann::json& text = Member(Member(*map, "data"), key);
  if (!text.is_string()) {
    return absl::NotFoundError(fmt::format("it has no key \"{}\" with a text", key));
  }
  return text.get<std::string>();
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

// Levels of all products, as of now; of many jobs that ask after a burst of nodes only one looks.
const std::map<std::string, ProductLevels>& JobController::LevelsOfProducts(size_t gpu_slot) {
  feed_.Refresh();
  const uint64_t version = feed_.ledger().node_version();
  if (product_levels_.version != version || product_levels_.gpu_slot != gpu_slot) {
    product_levels_ = {version, gpu_slot, LevelsByProduct(feed_.ledger(), gpu_slot)};
  }
  return product_levels_.products;
}

// A placed job keeps the plan that its pods were made with. True when the admission has to be made
// anew.
bool JobController::RefreshPlan(JobState& state) {
  const PlanWish& wish = WishFor(state);
  JobPlanning& planning = state.planning;
  if (!state.status.placement.runs.empty()) {
    if (state.status.plan.gpus > 0) {
      TellPlan(*state.object, wish, state.status.plan, planning);
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
  if (SamePlanAsked(state.status.plan, question, state.status.placement.epoch > 0)) {
    TellPlan(*state.object, wish, state.status.plan, planning);
    planning.pending = false;
    return false;
  }
  const std::string asked = question.spec_digest + question.cluster_digest;
  const bool retry = planning.again && clock_.SteadyNow() >= *planning.again;
  if (planning.asked == asked && !retry) {
    if (planning.again) {
      Remind(state, *planning.again - clock_.SteadyNow());
    }
    return false;  // it is being made, or there is none
  }
  planning.asked = asked;
  planning.again.reset();
  planning.pending = true;
  if (!planning.made) {
    planning.reason = plan_reason::kPlanning;
    planning.message = "the planner is asked";
  }
  if (!wish.spec.model->config_map.empty() && !planning.config_json) {
    ReadModel(state, std::move(question));
  } else {
    question.config_json = planning.config_json.value_or("");
    AskPlanner(state, std::move(question));
  }
  return false;
}

// config.json is read once: a plan does not change under a job.
void JobController::ReadModel(JobState& state, JobPlanQuestion question) {
  const JobModelSpec& model = *question.spec.model;
  const kube::ObjectName name{state.meta().namespace_name, model.config_map};
  client_.Get(
      kConfigMapsAsJson, name, kube::Lane::kWrite,
      alive_.Wrap([this, uid = state.meta().uid,
                   question = std::move(question)](absl::StatusOr<kube::Reply> reply) mutable {
        const auto found = jobs_.find(uid);
        if (found == jobs_.end() ||
            found->second->planning.asked != question.spec_digest + question.cluster_digest) {
          return;
        }
        JobState& job = *found->second;
        absl::StatusOr<std::string> text =
            reply.ok() ? KeyOfConfigMap(reply->body, question.spec.model->config_map_key)
                       : absl::StatusOr<std::string>(reply.status());
        if (!text.ok()) {
          const absl::Duration delay = std::min(
              kModelRetryFirst * (1 << std::min(job.planning.failures++, 10)), kModelRetryMax);
          job.planning.again = clock_.SteadyNow() + delay;
          TellNoPlan(job.planning.wish, plan_reason::kUnreadable,
                     fmt::format("spec.model.huggingFaceConfigMap: \"{}\" cannot be read: {}",
                                 question.spec.model->config_map.substr(0, 253),
                                 base::ToStd(text.status().message())),
                     job.planning);
          Remind(job, delay);
          MarkDirty(uid);
          return;
        }
        job.planning.failures = 0;
        job.planning.config_json = *text;
        question.config_json = *std::move(text);
        AskPlanner(job, std::move(question));
      }));
}

void JobController::AskPlanner(JobState& state, JobPlanQuestion question) {
  auto deliver = alive_.Wrap([this, uid = state.meta().uid,
                              asked = question.spec_digest + question.cluster_digest,
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
