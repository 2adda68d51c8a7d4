// Any bytes as an extender request: every verb answers with JSON, the same question has the same
// answer, and both ways of reading a list of names agree.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "nlohmann/json.hpp"
#include "scheduler/extender/extender.h"
#include "scheduler/extender/request_reader.h"
#include "test/extender/view_builder.h"

namespace {

using asterism::scheduler::Extender;
using asterism::scheduler::ExtenderReadiness;
using asterism::scheduler::extender::NodesRequest;
using asterism::scheduler::extender::NodeTable;
using asterism::scheduler::extender::RequestReader;
using asterism::scheduler::extender::Verb;

struct Target {
  Target() {
    asterism::scheduler::testing::ViewBuilder builder({.supernodes = 2, .nodes_per_supernode = 4});
    builder.AddBlock("job", 0, "gpu-0-1", 1, "victim");
    cell.Publish(builder.Build());
    reader.Use(std::make_shared<const NodeTable>(*cell.Load()));
  }
  asterism::base::SimClock clock;
  asterism::base::MetricRegistry registry;
  asterism::base::SnapshotCell<asterism::scheduler::LedgerView> cell;
  RequestReader reader;
  Extender extender{clock, cell, [] { return ExtenderReadiness::kReady; }, registry, {}};
};

// The short way through long lists must read what the parser reads.
void CompareReaders(std::string_view body, RequestReader& reader) {
  NodesRequest parsed;
  const absl::Status by_parser = reader.ParseNodes(body, Verb::kFilter, parsed);
  NodesRequest read;
  const absl::Status status = reader.ReadNodes(body, Verb::kFilter, read);
  CHECK_THAT(status.ok() == by_parser.ok(), status.ToString() + by_parser.ToString());
  CHECK_THAT(!status.ok() || (read.form == parsed.form && read.nodes.ids == parsed.nodes.ids),
             "two readings of one request");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Target& target = *new Target();
  const asterism::scheduler::testing::PaddedBody body(
      std::string(reinterpret_cast<const char*>(data), size));
  CompareReaders(body.view(), target.reader);
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
