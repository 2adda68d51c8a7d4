// Cost of reading a TrainingJob and of making the pods and the status of a gang.
//
//   operator_bench            a table; exit 1 when a budget is missed
//   operator_bench --json     one JSON object a line
//
// The gang has 1,280 pods on 1,280 nodes in 320 supernodes, its template is that of the long golden
// case. Budgets hold for an optimised build with NDEBUG.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "fmt/format.h"
#include "operator/pod_builder.h"
#include "operator/training_job.h"
#include "test/source_tree.h"

namespace asterism::operators {
namespace {

constexpr int64_t kPods = 1280;
constexpr int kRounds = 5;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

template <typename Value>
Value Must(absl::StatusOr<Value> value) {
  CHECK_THAT(value.ok(), std::string(value.status().message()));
  return *std::move(value);
}

TrainingJobStatus PlacedStatus() {
  TrainingJobStatus status;
  status.state = "Running";
  status.placement.epoch = 1;
  for (int64_t first = 0; first < kPods; first += 4) {
    PlacementRun& run = status.placement.runs.emplace_back();
    run.domain = fmt::format("supernode-{}", first / 4);
    run.first_rank = first * 8;
    run.ranks = 32;
    for (int64_t node = first; node < first + 4; ++node) {
      run.nodes.push_back(fmt::format("gpu-{:04}", node));
    }
  }
  return status;
}

struct Figure {
  std::string_view name;
  double budget_us;
  int repeats;
  std::function<size_t()> operation;  // a size, so that the work is not left out
};

// The best of some rounds: what the code costs when nobody else is at work.
double MicrosecondsOf(const Figure& figure, base::Clock& clock) {
  double best = 0;
  size_t sizes = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = clock.SteadyNow();
    for (int i = 0; i < figure.repeats; ++i) {
      sizes += figure.operation();
    }
    const double total = absl::ToDoubleMicroseconds(clock.SteadyNow() - start);
    const double each = total / figure.repeats;
    best = round == 0 ? each : std::min(best, each);
  }
  CHECK_THAT(sizes > 0, "an operation did nothing");
  return best;
}

int Run(const std::string& folder, bool json) {
  const std::string text = ReadFile(folder + "/long-form.job.json");
  const TrainingJob job = Must(ParseTrainingJob(text));
  const GangShape shape = Must(ShapeOf(job.spec, 8, JobClass::kFinetuning));
  const PodBuilder builder = Must(PodBuilder::Make(job, shape, PodSettings{}));
  const TrainingJobStatus status = PlacedStatus();
  std::vector<std::string> names;
  for (int64_t node = 0; node < kPods; ++node) {
    names.push_back(fmt::format("gpu-{:04}", node));
  }
  const Figure figures[] = {
      {"operator_parse_training_job", 200, 200,
       [&] { return Must(ParseTrainingJob(text)).Key().size(); }},
      {"operator_make_pod_builder", 1000, 100,
       [&] { return Must(PodBuilder::Make(job, shape, PodSettings{})).ServiceBody().size(); }},
      {"operator_pod_body", 10, 5000,
       [&] { return builder.PodBody({.first_rank = 8, .node = "gpu-0008", .epoch = 1}).size(); }},
      {"operator_status_apply_body_1280_pods", 4000, 50,
       [&] { return StatusApplyBody(job.meta, status).size(); }},
      {"operator_node_ranges_1280_names", 800, 200,
       [&] { return Must(ParseNodeRanges(FormatNodeRanges(names), names.size())).size(); }},
  };
  base::SystemClock clock;
  bool all_ok = true;
  for (const Figure& figure : figures) {
    const double value = MicrosecondsOf(figure, clock);
    const bool ok = value <= figure.budget_us;
    all_ok = all_ok && ok;
    if (json) {
      fmt::print("{{\"name\":\"{}\",\"unit\":\"us\",\"value\":{:.2f},\"budget\":{},\"ok\":{}}}\n",
                 figure.name, value, figure.budget_us, ok);
    } else {
      fmt::print("{:<40} {:>10.2f} us  budget {:>6} us  {}\n", figure.name, value, figure.budget_us,
                 ok ? "ok" : "MISSED");
    }
  }
  return all_ok ? 0 : 1;
}

}  // namespace
}  // namespace asterism::operators

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::string_view(argv[1]) == "--json";
  return asterism::operators::Run(asterism::test_paths::SourceTree() + "/test/golden/operator",
                                  json);
}
