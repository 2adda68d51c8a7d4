#include "cli/plan_view.h"

#include "cli/table.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "planner/command_flags.h"
#include "planner/constraints.h"
#include "planner/launch_files.h"

namespace asterism::cli {
namespace {

using planner::ParallelPlan;
using planner::PlanAnswer;

constexpr size_t kLabelColumns = 14;
constexpr double kShownShare = 0.001;  // terms below it are left out

std::string Gibibytes(double bytes) {
  return fmt::format("{:.1f}", bytes / (1 << 30));
}

std::string Seconds(double seconds) {
  return seconds < 1 ? fmt::format("{:.0f} ms", 1000 * seconds) : fmt::format("{:.2f} s", seconds);
}

std::string ShareText(double part, double whole) {
  return fmt::format("{:.1f} %", 100 * part / whole);
}

std::string ScheduleText(const ParallelPlan& plan) {
  if (plan.degrees.pipeline == 1) {
    return "none: one stage";
  }
  std::string text = plan.virtual_stages > 1
                         ? fmt::format("interleaved, {} virtual stages a rank", plan.virtual_stages)
                         : "1F1B";
  if (plan.first_layers > 0 || plan.last_layers > 0) {
    text += fmt::format(", {} layers in the first stage, {} in the last", plan.first_layers,
                        plan.last_layers);
  }
  if (plan.count_embedding) {
    text += ", embedding and loss count as layers";
  }
  return text;
}

std::string StatesText(const ParallelPlan& plan, const PlanAnswer& answer) {
  constexpr std::string_view kWords[] = {"not sharded", "optimizer sharded",
                                         "optimizer and gradients sharded", "fully sharded"};
  const std::string_view word = kWords[static_cast<size_t>(plan.sharding)];
  return answer.state_copies > 1
             ? fmt::format("{}; {} ranks hold the same state", word, answer.state_copies)
             : fmt::format("{}; no redundancy: each state is on one GPU", word);
}

std::string RecomputeText(const ParallelPlan& plan) {
  switch (plan.recompute.mode) {
    case planner::RecomputeMode::kNone:
      return "nothing";
    case planner::RecomputeMode::kSelective:
      return "core attention";
    case planner::RecomputeMode::kModules:
      return "modules";
    case planner::RecomputeMode::kOperators:
      return "every second product";
    case planner::RecomputeMode::kFull:
      return "whole layers";
  }
  return "";
}

class PlanPrinter {
 public:
  PlanPrinter(const PlanQuestion& question, const PlanAnswer& answer,
              const PlanViewOptions& options)
      : question_(question),
        answer_(answer),
        plan_(answer.best().plan),
        request_(question.request),
        options_(options) {}

  std::vector<Line> Render() {
    AddHead();
    AddMemory();
    AddTime();
    AddNeighbours();
    if (options_.wide) {
      AddStages();
      AddGroups();
    }
    AddLaunch();
    return std::move(lines_);
  }

 private:
  void Field(std::string_view label, std::string_view text, Tone tone = Tone::kPlain) {
    AddWrapped(fmt::format("  {:<{}}", label, kLabelColumns), text, tone, options_.width, lines_);
  }

  void Add(const Table& table) {
    lines_.emplace_back();
    for (const Line& line : table.Lines()) {
      lines_.push_back(line);
    }
  }

  void AddHead() {
    lines_.emplace_back()
        .Add(question_.name.empty() ? "plan" : question_.name, Tone::kBold)
        .Add(fmt::format(": {} on {} of {} GPUs ({}), {}", request_.model.name, answer_.best().gpus,
                         request_.gpus, request_.cluster.gpu.name,
                         planner::FrameworkName(plan_.framework)));
    const planner::Degrees& d = plan_.degrees;
    Field(
        "degrees",
        fmt::format("tensor {}, pipeline {}, context {}, data {}{}", d.tensor, d.pipeline,
                    d.context, d.data,
                    request_.model.experts.count > 0 ? fmt::format(", expert {}", d.expert) : ""));
    Field("batch",
          fmt::format("{} of {} tokens: {} micro-batches of {} on each data rank",
                      plan_.global_batch, plan_.sequence, plan_.MicroBatches(), plan_.micro_batch));
    Field("pipeline", ScheduleText(plan_));
    Field("states", StatesText(plan_, answer_));
    Field("recompute", RecomputeText(plan_));
    Field("step",
          fmt::format("{} ({} to {})", Seconds(answer_.seconds.value), Seconds(answer_.seconds.low),
                      Seconds(answer_.seconds.high)),
          Tone::kGood);
    Field("memory",
          fmt::format("{} GiB ({} to {}) of {} on the fullest GPU",
                      Gibibytes(answer_.device.device.value), Gibibytes(answer_.device.device.low),
                      Gibibytes(answer_.device.device.high),
                      Gibibytes(request_.cluster.gpu.memory_bytes)));
    Field("bound by", answer_.bound_by);
    const planner::SearchCertificate& proof = answer_.outcome.certificate;
    Field("proof", fmt::format("{} of {} plans looked at; {}", proof.evaluated, proof.space,
                               proof.proven ? "none of the others can be faster in this model"
                                            : "stopped early: a faster one may be left"));
    if (!answer_.legal_world_sizes.empty()) {
      const auto& sizes = answer_.legal_world_sizes;
      Field("also runs on",
            fmt::format("{} GPUs, with fewer data ranks",
                        fmt::join(sizes.begin(),
                                  sizes.begin() + static_cast<std::ptrdiff_t>(
                                                      std::min<size_t>(8, sizes.size())),
                                  ", ")));
    }
  }

  void AddMemory() {
    const planner::StageMemory& stage = answer_.memory.stages[answer_.memory.peak_stage];
    Table table({{fmt::format("MEMORY, STAGE {}", answer_.memory.peak_stage)},
                 {"GIB", Align::kRight},
                 {"SHARE", Align::kRight}});
    const double device = answer_.device.device.value;
    const auto row = [&](std::string_view name, double bytes) {
      if (bytes > kShownShare * device) {
        table.AddRow({{std::string(name)}, {Gibibytes(bytes)}, {ShareText(bytes, device)}});
      }
    };
    for (const auto& [name, bytes] : stage.Terms()) {
      // Of the two moments only the larger counts.
      const bool moment = name == "loss moment" || name == "backward moment";
      row(name, moment && bytes < stage.Moment() ? 0 : bytes);
    }
    row("fragments", answer_.device.reserved.value - answer_.device.allocated.value);
    row("context and NCCL", device - answer_.device.reserved.value);
    Add(table);
  }

  void AddTime() {
    Table table({{"STEP"}, {"TIME", Align::kRight}, {"SHARE", Align::kRight}});
    const double step = answer_.seconds.value;
    for (const auto& [name, seconds] : answer_.time_terms) {
      if (seconds > kShownShare * step) {
        table.AddRow({{std::string(name)}, {Seconds(seconds)}, {ShareText(seconds, step)}});
      }
    }
    Add(table);
  }

  void AddNeighbours() {
    if (answer_.neighbours.empty()) {
      return;
    }
    Table table({{"NEAREST REFUSED"}, {"STEP", Align::kRight}, {"RULE"}, {"WHY"}});
    for (const planner::RejectedNeighbour& each : answer_.neighbours) {
      table.AddRow({{each.change}, {Seconds(each.seconds)}, {each.id}, {each.reason}});
    }
    Add(table);
  }

  void AddStages() {
    Table table({{"STAGE"},
                 {"PARAMETERS", Align::kRight},
                 {"STATES GIB", Align::kRight},
                 {"ACTIVATIONS GIB", Align::kRight},
                 {"ALLOCATED GIB", Align::kRight}});
    for (size_t index = 0; index < answer_.memory.stages.size(); ++index) {
      const planner::StageMemory& stage = answer_.memory.stages[index];
      table.AddRow({{fmt::format("{}", index)},
                    {fmt::format("{:.3g}", stage.parameters)},
                    {Gibibytes(stage.States())},
                    {Gibibytes(stage.activations)},
                    {Gibibytes(stage.Allocated())}});
    }
    Add(table);
  }

  void AddGroups() {
    Table table({{"GROUPS"},
                 {"RANKS", Align::kRight},
                 {"GROUPS", Align::kRight},
                 {"STRIDE", Align::kRight},
                 {"LEVEL"},
                 {"MB A STEP", Align::kRight},
                 {"MB A MESSAGE", Align::kRight},
                 {"EXPOSED", Align::kRight}});
    for (const planner::GroupTraffic& each : answer_.groups) {
      table.AddRow({{std::string(planner::ToString(each.kind))},
                    {fmt::format("{}", each.ranks)},
                    {fmt::format("{}", each.groups)},
                    {fmt::format("{}", each.stride)},
                    {request_.cluster.levels[each.level].name},
                    {fmt::format("{:.1f}", each.bytes_per_step / 1e6)},
                    {fmt::format("{:.2f}", each.bytes_a_message / 1e6)},
                    {ShareText(each.exposed, 1)}});
    }
    Add(table);
  }

  void AddLaunch() {
    Table table({{"SWITCH"}, {"VALUE"}, {"WHY"}});
    for (const auto* choices : {&answer_.tuned.choices, &answer_.tuned.variables}) {
      for (const planner::LaunchChoice& each : *choices) {
        table.AddRow({{each.name}, {each.value}, {each.reason}});
      }
    }
    if (!table.empty()) {
      Add(table);
    }
    const planner::LaunchFiles files = planner::WriteLaunch(
        request_.model, answer_.tuned.launch,
        {.nodes = (answer_.best().gpus + question_.gpus_per_node - 1) / question_.gpus_per_node,
         .gpus_per_node = question_.gpus_per_node},
        question_.format);
    lines_.emplace_back();
    lines_.emplace_back("ARGUMENTS", Tone::kBold);
    AddWrapped("  ",
               fmt::format(
                   "{}", fmt::join(planner::WithoutGiven(files.arguments, question_.command), " ")),
               Tone::kPlain, options_.width, lines_);
  }

  const PlanQuestion& question_;
  const PlanAnswer& answer_;
  const ParallelPlan& plan_;
  const planner::SearchRequest& request_;
  const PlanViewOptions options_;
  std::vector<Line> lines_;
};

}  // namespace

std::vector<Line> PlanLines(const PlanQuestion& question, const PlanAnswer& answer,
                            const PlanViewOptions& options) {
  return PlanPrinter(question, answer, options).Render();
}

}  // namespace asterism::cli
