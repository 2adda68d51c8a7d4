#include "operator/job_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/cut_text.h"
#include "base/hash.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "operator/plan_launch.h"
#include "operator/pod_template.h"
#include "planner/command_flags.h"
#include "planner/emit_accelerate.h"
#include "planner/launch_files.h"
#include "planner/plan_answer.h"
#include "planner/time_constants.h"

namespace asterism::operators {
namespace {

using nlohmann::json;

// What the schema of status.plan allows.
constexpr size_t kPlanTextBytesMax = 256;

std::string Hex(uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

// All that the job itself says for its plan.
std::string DigestOfSpec(const TrainingJob& job, const GangShape& shape) {
  json said = json::object();
  const json& spec = Member(*job.object, "spec");
  for (const char* field : {"model", "plan", "framework", "gpuProducts", "resourceName"}) {
    said[field] = Member(spec, field);
  }
  said["gpus"] = job.spec.gpus;
  said["gpusPerPod"] = shape.gpus_per_pod;
  said["command"] = TrainerCommand(*job.object, job.spec.container_name);
  return Hex(base::Fnv1a(DumpJson(said)));
}

const planner::CalibrationSet& KeptBy(const JobPlanQuestion& question) {
  static const planner::CalibrationSet kNothing;
  return question.kept == nullptr ? kNothing : *question.kept;
}

// Of a calibration its constants: versions begin anew with a new object.
std::string DigestOfOffers(const JobPlanQuestion& question) {
  uint64_t hash =
      base::Fnv1a(fmt::format("{} {}\n", planner::kTimeTablesVersion, question.unknown_products));
  for (const PlanOffer& offer : question.offers) {
    hash = base::Fnv1a(fmt::format("{} {}\n", offer.product, offer.cluster.gpu.name), hash);
    const std::optional<std::string> key =
        planner::CalibrationKey(offer.cluster.gpu.name, question.framework);
    const planner::KeptCalibration* const kept =
        key.has_value() ? KeptBy(question).Find(*key) : nullptr;
    for (size_t i = 0; kept != nullptr && i < planner::CalibratedConstants().size(); ++i) {
      hash =
          base::Fnv1a(fmt::format("{} ", kept->constants.*planner::CalibratedConstants()[i]), hash);
    }
    for (const planner::ClusterLevel& level : offer.cluster.levels) {
      hash = base::Fnv1a(fmt::format("{} {} {} {}\n", level.name, level.gpus,
                                     level.gigabytes_per_second, level.latency_us),
                         hash);
    }
  }
  return Hex(hash);
}

// Those that the job may have, in the order in which they are priced.
std::vector<std::string> CandidateProducts(const TrainingJob& job,
                                           const std::map<std::string, ProductLevels>& products) {
  std::vector<std::string> names = job.spec.gpu_products;
  if (names.empty()) {
    for (const auto& [name, levels] : products) {
      names.push_back(name);
    }
  } else {
    std::erase_if(names, [&products](const std::string& name) { return !products.contains(name); });
  }
  const auto is_small = [&](const std::string& name) {
    return products.at(name).gpus < job.spec.gpus;
  };
  // One that can never hold the gang is not worth a search, unless all are like that: then the
  // engine says so.
  if (!std::all_of(names.begin(), names.end(), is_small)) {
    std::erase_if(names, is_small);
  }
  return names;
}

// `--deepspeed FILE`, `--deepspeed_config FILE`, `--config_file FILE`: the degrees stand in there.
std::string OwnFile(planner::Framework framework, const std::vector<std::string>& command) {
  const auto names_a_file = [&command](size_t index, std::string_view option) {
    const std::string& word = command[index];
    if (word.starts_with(fmt::format("{}=", option))) {
      return true;
    }
    return word == option && index + 1 < command.size() && !command[index + 1].starts_with("-");
  };
  for (size_t i = 0; i < command.size(); ++i) {
    const bool deepspeed =
        framework == planner::Framework::kDeepSpeed &&
        (names_a_file(i, "--deepspeed_config") || names_a_file(i, "--deepspeed"));
    const bool accelerate =
        framework == planner::Framework::kAccelerate && names_a_file(i, "--config_file");
    if (deepspeed || accelerate) {
      return command[i].substr(0, command[i].find('='));
    }
  }
  return "";
}

int64_t WholeBytes(double bytes) {
  return static_cast<int64_t>(std::llround(bytes));
}

// Three digits behind the point of a millisecond are more than anybody can know.
double Thousandths(double value) {
  return std::round(value * 1000) / 1000;
}

// For each level above the pod the largest groups of consecutive ranks that it can hold, with what
// the groups send that fit into such a block and into no smaller one.
std::vector<PlanBlock> BlocksOfPlan(const planner::PlanAnswer& answer,
                                    const planner::ClusterSpec& cluster, int64_t gpus) {
  std::vector<PlanBlock> blocks;
  int64_t inner = cluster.levels[0].gpus;
  for (size_t level = 1; level < cluster.levels.size(); ++level) {
    const int64_t pod = cluster.levels[0].gpus;
    int64_t largest = 0;
    for (const planner::GroupTraffic& group : answer.groups) {
      const int64_t span = group.ranks * group.stride;
      const bool fits = span > cluster.levels[level - 1].gpus && span < gpus &&
                        span <= cluster.levels[level].gpus && span % pod == 0 && gpus % span == 0;
      largest = fits ? std::max(largest, span) : largest;
    }
    if (largest > 0) {
      double bytes = 0;
      for (const planner::GroupTraffic& group : answer.groups) {
        const int64_t span = group.ranks * group.stride;
        bytes += span > inner && span <= largest ? group.bytes_per_step : 0;
      }
      blocks.push_back({cluster.levels[level].name, largest, WholeBytes(bytes)});
      inner = largest;
    }
  }
  return blocks;
}

void FillLaunchOf(const JobPlanQuestion& question, const planner::SearchRequest& request,
                  const planner::PlanAnswer& answer, PlanStatus& plan) {
  const planner::LaunchFiles files =
      planner::WriteLaunch(request.model, answer.tuned.launch,
                           {.nodes = plan.gpus / question.shape.gpus_per_pod,
                            .gpus_per_node = question.shape.gpus_per_pod},
                           planner::FormatOf(question.framework));
  plan.file_name = files.name;
  plan.file_text = files.text;
  plan.arguments = planner::WithoutGiven(files.arguments, question.spec.command);
  for (std::string& word : plan.arguments) {
    if (!files.name.empty() && word == files.name) {
      word = PlanFilePath(files.name);
    }
  }
  for (const planner::LaunchChoice& variable : answer.tuned.variables) {
    plan.variables.push_back({variable.name, variable.value});
  }
  if (question.framework == planner::Framework::kAccelerate) {
    const planner::SettingList file = planner::EmitAccelerateVariables(answer.tuned.launch);
    for (const planner::Setting& variable : file.settings()) {
      plan.variables.push_back({variable.name, variable.value});
    }
  }
}

PlanStatus StatusOf(const JobPlanQuestion& question, const PlanOffer& offer,
                    const planner::SearchRequest& request, const planner::PlanAnswer& answer) {
  const planner::ParallelPlan& best = answer.best().plan;
  const planner::Degrees& degrees = best.degrees;
  PlanStatus plan;
  plan.spec_digest = question.spec_digest;
  plan.cluster_digest = question.cluster_digest;
  plan.model_digest = question.model_digest;
  plan.gpu_product = offer.product;
  plan.gpus = answer.best().gpus;
  plan.degrees = {{"tensor", degrees.tensor},
                  {"pipeline", degrees.pipeline},
                  {"context", degrees.context},
                  {"data", degrees.data}};
  if (request.model.experts.count > 0) {
    plan.degrees.emplace_back("expert", degrees.expert);
    plan.degrees.emplace_back("expertTensor", degrees.expert_tensor);
  }
  plan.micro_batch_size = best.micro_batch;
  plan.step_time_ms = {.value = Thousandths(1e3 * answer.seconds.value),
                       .low = Thousandths(1e3 * answer.seconds.low),
                       .high = Thousandths(1e3 * answer.seconds.high)};
  plan.allocated_bytes = WholeBytes(answer.device.allocated.value);
  plan.reserved_bytes = WholeBytes(answer.device.reserved.value);
  plan.device_bytes = WholeBytes(answer.device.device.value);
  plan.bound_by = base::CutText(answer.bound_by, kPlanTextBytesMax);
  plan.blocks = BlocksOfPlan(answer, offer.cluster, plan.gpus);
  plan.tables_version = request.tables_version;
  FillLaunchOf(question, request, answer, plan);
  return plan;
}

// What the planner says of one product.
struct PricedOffer {
  JobPlanAnswer answer;
  double gpu_seconds = 0;
};

PricedOffer PriceOffer(const JobPlanQuestion& question, const PlanOffer& offer) {
  PricedOffer priced;
  JobPlanAnswer& answer = priced.answer;
  absl::StatusOr<planner::SearchRequest> request = RequestOfJob(
      question.spec, question.framework, offer.cluster, question.config_json, KeptBy(question));
  if (!request.ok()) {
    answer.reason = plan_reason::kInvalid;
    answer.message = base::ToStd(request.status().message());
    return priced;
  }
  request->gpu_step = question.shape.gpus_per_pod;
  request->top_k = 1;
  const absl::StatusOr<planner::PlanAnswer> found = planner::AnswerPlan(*request);
  if (!found.ok()) {
    answer.reason = plan_reason::kInvalid;
    answer.message =
        fmt::format("spec.model, spec.plan: {}", base::ToStd(found.status().message()));
    return priced;
  }
  if (found->outcome.best.empty()) {
    answer.reason = plan_reason::kDoesNotFit;
    answer.message = fmt::format("spec.{}", found->impossible);
    return priced;
  }
  answer.plan = StatusOf(question, offer, *request, *found);
  priced.gpu_seconds = found->best().seconds * static_cast<double>(found->best().gpus);
  return priced;
}

std::string KnownGpus() {
  const std::vector<std::string_view> names = planner::GpuNames();
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

PlanWish WishOf(const TrainingJob& job) {
  PlanWish wish;
  if (!job.spec.has_model || job.object == nullptr) {
    wish.no_plan_reason = plan_reason::kNoModel;
    wish.no_plan_message = "spec.model is absent: the job runs with its own arguments";
    return wish;
  }
  if (job.spec.plan_mode == "Off") {
    wish.no_plan_reason = plan_reason::kPlanOff;
    wish.no_plan_message = "spec.plan.mode is Off";
    return wish;
  }
  absl::Status error;
  wish.spec = ParseJobPlan(JsonFields(job.object.get(), "", &error).Object("spec"));
  wish.mode = wish.spec.EffectiveMode();
  const std::optional<planner::Framework> framework = PlannerFrameworkOf(wish.spec.framework);
  if (!framework.has_value()) {
    wish.no_plan_reason = plan_reason::kNoArguments;
    wish.no_plan_message = fmt::format(
        "spec.framework: {} has no arguments that could be planned: the job runs with its own; use "
        "MegatronLM, DeepSpeed or FSDP",
        wish.spec.framework.substr(0, 64));
    return wish;
  }
  wish.framework = *framework;
  wish.spec.command = TrainerCommand(*job.object, job.spec.container_name);
  wish.error = base::ToStd(error.message());
  if (const std::string file = OwnFile(wish.framework, wish.spec.command);
      wish.error.empty() && wish.mode == PlanMode::kApply && !file.empty()) {
    wish.error = fmt::format(
        "spec.plan.mode: Apply writes the file of the framework, but the command names its own "
        "({}): leave it out, or set the mode to Advise",
        file);
  }
  return wish;
}

JobPlanQuestion QuestionOf(const TrainingJob& job, const PlanWish& wish,
                           const std::map<std::string, ProductLevels>& products,
                           const GangShape& shape, const std::vector<std::string>& level_names,
                           const PlannerSettings& settings) {
  JobPlanQuestion question{
      .spec = wish.spec, .framework = wish.framework, .shape = shape, .kept = settings.kept};
  for (const std::string& product : CandidateProducts(job, products)) {
    const planner::GpuSpec* gpu = GpuOfProduct(product, settings);
    if (gpu == nullptr) {
      question.unknown_products += (question.unknown_products.empty() ? "" : ", ") + product;
    } else if (question.offers.size() < kPlannedProductsMax) {
      question.offers.push_back({product, PlanCluster({.gpu = *gpu,
                                                       .level_names = level_names,
                                                       .levels = products.at(product),
                                                       .gpus_per_pod = shape.gpus_per_pod,
                                                       .gpus = job.spec.gpus},
                                                      settings)});
    }
  }
  question.spec_digest = DigestOfSpec(job, shape);
  question.cluster_digest = DigestOfOffers(question);
  return question;
}

std::string ModelDigestOf(std::string_view config_json) {
  return Hex(base::Fnv1a(config_json));
}

void SetModelConfig(std::string config_json, JobPlanQuestion& question) {
  question.model_digest = ModelDigestOf(config_json);
  question.config_json = std::move(config_json);
}

bool SamePlanAsked(const PlanStatus& plan, const JobPlanQuestion& question, bool has_run) {
  return plan.gpus > 0 && plan.spec_digest == question.spec_digest &&
         (has_run || (plan.cluster_digest == question.cluster_digest &&
                      plan.model_digest == question.model_digest));
}

bool NoPlanForGood(std::string_view reason) {
  return reason == plan_reason::kInvalid || reason == plan_reason::kDoesNotFit;
}

JobPlanAnswer AnswerJobPlan(const JobPlanQuestion& question) {
  JobPlanAnswer answer;
  if (question.shape.processes_per_pod != question.shape.gpus_per_pod) {
    answer.reason = plan_reason::kInvalid;
    answer.message = fmt::format(
        "spec.processesPerPod: {} for {} GPUs: a plan needs a process for each GPU: leave it out, "
        "or set spec.plan.mode to \"Off\"",
        question.shape.processes_per_pod, question.shape.gpus_per_pod);
    return answer;
  }
  if (question.offers.empty()) {
    answer.reason = plan_reason::kUnknownProduct;
    answer.message =
        question.unknown_products.empty()
            ? "spec.gpuProducts: no node with such a GPU has joined, or none says its product"
            : fmt::format(
                  "spec.gpuProducts: the planner does not know {}: name the GPU that it is "
                  "like in planner.gpuProducts of the configuration ({}), or set "
                  "spec.plan.mode to \"Off\"",
                  base::CutText(question.unknown_products, kPlanTextBytesMax), KnownGpus());
    return answer;
  }
  std::optional<PricedOffer> best;
  for (const PlanOffer& offer : question.offers) {
    PricedOffer priced = PriceOffer(question, offer);
    const bool fits = priced.answer.plan.gpus > 0;
    const bool had = best.has_value() && best->answer.plan.gpus > 0;
    if (!best.has_value() || (fits && (!had || priced.gpu_seconds < best->gpu_seconds))) {
      best = std::move(priced);
    }
  }
  return std::move(best->answer);
}

std::string SummaryOf(const PlanStatus& plan) {
  std::string degrees;
  for (const auto& [name, degree] : plan.degrees) {
    if (degree > 1) {
      degrees += fmt::format("{} {}, ", name, degree);
    }
  }
  constexpr double kGibibyte = 1073741824.0;
  return fmt::format(
      "{}micro-batch {} on {} GPUs{}: {:.4g} s a step ({:.4g} to {:.4g}), {:.1f} GiB of each GPU",
      degrees, plan.micro_batch_size, plan.gpus,
      plan.gpu_product.empty() ? "" : fmt::format(" ({})", plan.gpu_product),
      plan.step_time_ms.value / 1e3, plan.step_time_ms.low / 1e3, plan.step_time_ms.high / 1e3,
      static_cast<double>(plan.device_bytes) / kGibibyte);
}

}  // namespace asterism::operators
