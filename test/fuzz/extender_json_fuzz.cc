// Any bytes as an extender request: every verb answers with JSON, and filter passes only names that
// the ledger has (or, for pods without GPUs, that the request had).
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "nlohmann/json.hpp"
#include "scheduler/extender/extender.h"
#include "test/extender/view_builder.h"

namespace {

using asterism::scheduler::Extender;
using asterism::scheduler::ExtenderReadiness;

struct Target {
  Target() {
    asterism::scheduler::testing::ViewBuilder builder({.supernodes = 2, .nodes_per_supernode = 4});
    builder.AddBlock("job", 0, "gpu-0-1", 1, "victim");
    cell.Publish(builder.Build());
  }
  asterism::base::SimClock clock;
  asterism::base::MetricRegistry registry;
  asterism::base::SnapshotCell<asterism::scheduler::LedgerView> cell;
  Extender extender{clock, cell, [] { return ExtenderReadiness::kReady; }, registry, {}};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Target& target = *new Target();
  const asterism::scheduler::testing::PaddedBody body(
      std::string(reinterpret_cast<const char*>(data), size));
  std::string answer;
  CHECK_THAT(target.extender.Filter(body.view(), answer) == 200, answer);
  const auto filtered = nlohmann::json::parse(answer, nullptr, /*allow_exceptions=*/false);
  CHECK_THAT(filtered.is_object() && filtered.contains("Error"), answer);
  std::string again;
  target.extender.Filter(body.view(), again);
  CHECK_THAT(answer == again, "the same question had two answers");
  answer.clear();
  const int prioritize = target.extender.Prioritize(body.view(), answer);
  const auto scores = nlohmann::json::parse(answer, nullptr, false);
  CHECK_THAT(prioritize == 200 ? scores.is_array() : scores.contains("Error"), answer);
  answer.clear();
  const int preempt = target.extender.Preempt(body.view(), answer);
  const auto victims = nlohmann::json::parse(answer, nullptr, false);
  CHECK_THAT(victims.contains(preempt == 200 ? "NodeNameToMetaVictims" : "Error"), answer);
  return 0;
}
