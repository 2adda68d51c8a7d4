// The extender against a naive reference that reads the same bytes as a tree and counts by hand.
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "scheduler/extender/extender.h"
#include "scheduler/extender/request_reader.h"
#include "test/extender/view_builder.h"

namespace asterism::scheduler {
namespace {

using Json = nlohmann::json;
using testing::ArgsJson;
using testing::kGpuSlot;
using testing::PaddedBody;
using testing::PodShape;
using testing::ViewBuilder;

struct Case {
  std::shared_ptr<const LedgerView> view;
  std::string body;
};

Case AnyCase() {
  const auto supernodes = *rc::gen::inRange<size_t>(1, 6);
  const auto nodes = *rc::gen::inRange<size_t>(1, 6);
  ViewBuilder builder({.supernodes = supernodes, .nodes_per_supernode = nodes});
  const std::vector<std::string> names = builder.NodeNames();
  for (const std::string& name : names) {
    NodeView& node = builder.Node(name);
    node.used[kGpuSlot] = *rc::gen::weightedOneOf<int64_t>(
        {{2, rc::gen::just<int64_t>(0)}, {1, rc::gen::inRange<int64_t>(0, 10)}});
    node.used[kCpuSlot] = *rc::gen::element<int64_t>(0, 0, 50'000, 92'000, 92'001);
    node.usable = *rc::gen::weightedElement<bool>({{9, true}, {1, false}});
  }
  const bool gang = *rc::gen::inRange(0, 3) == 0;
  const auto epoch = *rc::gen::inRange(1, 4);
  builder.AddBlock("job", 0, *rc::gen::elementOf(names), 2, "");
  builder.AddBlock("job", 8, *rc::gen::elementOf(names), 3, "pod");
  PodShape pod{.gpus = *rc::gen::inRange<int64_t>(0, 10)};
  if (gang) {
    pod.job_uid = *rc::gen::element<std::string>("job", "job", "job", "other");
    pod.ranks = *rc::gen::element<std::string>("0-7", "8-15", "16-23", "x");
    pod.epoch = std::to_string(epoch);
  }
  std::vector<std::string> asked =
      *rc::gen::container<std::vector<std::string>>(rc::gen::weightedOneOf<std::string>(
          {{9, rc::gen::elementOf(names)}, {1, rc::gen::element<std::string>("gpu-", "x", "")}}));
  return {builder.Build(), ArgsJson(pod, asked)};
}

// What a pod of PodShape asks for, and the rules of the table, in the plainest words.
class Reference {
 public:
  explicit Reference(const Case& given) : view_(*given.view), args_(Json::parse(given.body)) {
    const Json& requests = args_["Pod"]["spec"]["containers"][0]["resources"]["requests"];
    gpus_ = std::stoll(requests["nvidia.com/gpu"].get<std::string>());
    for (size_t i = 0; i < view_.nodes.size(); ++i) {
      id_[view_.nodes[i].name] = i;
    }
  }

  bool Passes(const std::string& name) const {
    const Json& labels = args_["Pod"]["metadata"]["labels"];
    if (labels.contains("asterism.dev/job-uid")) {
      return GangPasses(labels["asterism.dev/job-uid"], name);
    }
    return gpus_ == 0 || SingleFits(name);
  }

  int Score(const std::string& name) const {
    const Json& labels = args_["Pod"]["metadata"]["labels"];
    if (labels.contains("asterism.dev/job-uid")) {
      return Passes(name) ? 10 : 0;
    }
    if (gpus_ == 0 || !SingleFits(name)) {
      return 0;
    }
    const NodeView& node = view_.nodes[id_.at(name)];
    if (node.used[kGpuSlot] > 0) {
      const double left = static_cast<double>(8 - node.used[kGpuSlot] - gpus_);
      return 10 - static_cast<int>(std::ceil(3 * left / 8));
    }
    double gone = 0;
    double all = 0;
    const std::string supernode = name.substr(0, name.rfind('-'));
    for (const NodeView& other : view_.nodes) {
      if (other.name.substr(0, other.name.rfind('-')) == supernode) {
        all += 8;
        gone += other.usable ? static_cast<double>(std::min<int64_t>(8, other.used[kGpuSlot])) : 8;
      }
    }
    return gone == 0 ? 0 : 4 + static_cast<int>(3 * gone / all);
  }

  std::vector<std::string> Names() const {
    return args_["NodeNames"].get<std::vector<std::string>>();
  }

 private:
  bool SingleFits(const std::string& name) const {
    const auto found = id_.find(name);
    if (found == id_.end()) {
      return false;
    }
    const NodeView& node = view_.nodes[found->second];
    return node.usable && node.used[kGpuSlot] + gpus_ <= 8 && node.used[kCpuSlot] + 4000 <= 96'000;
  }

  bool GangPasses(const std::string& uid, const std::string& name) const {
    const Json& annotations = args_["Pod"]["metadata"]["annotations"];
    const auto gang = view_.gangs.find(uid);
    const std::string ranks = annotations["asterism.dev/ranks"];
    if (gang == view_.gangs.end() || ranks.find('-') == std::string::npos) {
      return false;
    }
    for (const GangBlockView& block : gang->second->blocks) {
      if (block.first_rank == std::stoll(ranks)) {
        const NodeView& node = view_.nodes[id_.at(block.node)];
        return block.node == name &&
               std::to_string(block.epoch) == annotations["asterism.dev/epoch"] &&
               (gpus_ == 0 || node.used[kGpuSlot] <= 8) && node.used[kCpuSlot] <= 96'000;
      }
    }
    return false;
  }

  const LedgerView& view_;
  const Json args_;
  int64_t gpus_ = 0;
  std::map<std::string, size_t> id_;
};

void ExpectProperty(bool held) {
  EXPECT_TRUE(held);
}

TEST(ExtenderProperty, EqualsANaiveReference) {
  base::SimClock clock;
  base::MetricRegistry registry;
  base::SnapshotCell<LedgerView> cell;
  // One extender for all cases: what it keeps between calls must never show.
  Extender extender(clock, cell, [] { return ExtenderReadiness::kReady; }, registry, {});
  ExpectProperty(rc::check("filter and prioritize equal the reference", [&] {
    const Case given = AnyCase();
    cell.Publish(given.view);
    const Reference reference(given);
    const std::vector<std::string> names = reference.Names();
    std::vector<std::string> expected;
    Json scores = Json::array();
    for (const std::string& name : names) {
      if (reference.Passes(name)) {
        expected.push_back(name);
      }
      scores.push_back({{"Host", name}, {"Score", reference.Score(name)}});
    }
    const PaddedBody body(given.body);
    std::string answer;
    RC_ASSERT(extender.Filter(body.view(), answer) == 200);
    const Json filtered = Json::parse(answer);
    RC_ASSERT(filtered.at("Error") == "");
    RC_ASSERT(filtered.at("NodeNames").get<std::vector<std::string>>() == expected);
    // Every refused name has its reason, and no passed one has; names that repeat count each time
    // against the bound of 64 reasons.
    const std::set<std::string> passed(expected.begin(), expected.end());
    const Json& reasons = filtered.at("FailedAndUnresolvableNodes");
    for (const std::string& name : names) {
      RC_ASSERT(names.size() - expected.size() > 64 ||
                reasons.contains(name) != passed.contains(name));
    }
    answer.clear();
    RC_ASSERT(extender.Prioritize(body.view(), answer) == 200);
    RC_ASSERT(Json::parse(answer) == scores);
  }));
}

TEST(ExtenderProperty, PreemptEqualsANaiveReference) {
  base::SimClock clock;
  base::MetricRegistry registry;
  base::SnapshotCell<LedgerView> cell;
  Extender extender(clock, cell, [] { return ExtenderReadiness::kReady; }, registry, {});
  ViewBuilder builder({.supernodes = 1, .nodes_per_supernode = 4});
  const std::set<std::string> gang_pods = {"g0", "g1"};
  builder.AddBlock("job", 0, "gpu-0-0", 1, "g0");
  builder.AddBlock("other", 0, "gpu-0-1", 1, "g1");
  builder.AddBlock("other", 8, "gpu-0-2", 1, "");
  cell.Publish(builder.Build());
  ExpectProperty(rc::check("preempt equals the reference", [&] {
    const auto victims = *rc::gen::container<std::map<std::string, std::vector<std::string>>>(
        rc::gen::element<std::string>("gpu-0-0", "gpu-0-1", "x", "y", "z"),
        rc::gen::container<std::vector<std::string>>(
            rc::gen::element<std::string>("a", "b", "c", "d", "e", "g0", "g1", "")));
    Json question = {{"Pod", nullptr}, {"NodeNameToMetaVictims", Json::object()}};
    Json expected = Json::object();
    for (const auto& [node, uids] : victims) {
      Json entry = {{"Pods", Json::array()}, {"NumPDBViolations", uids.size()}};
      bool kept = true;
      for (const std::string& uid : uids) {
        entry["Pods"].push_back({{"UID", uid}});
        kept = kept && !gang_pods.contains(uid);
      }
      question["NodeNameToMetaVictims"][node] = entry;
      if (kept) {
        expected[node] = entry;
      }
    }
    std::string answer;
    RC_ASSERT(extender.Preempt(PaddedBody(question.dump()).view(), answer) == 200);
    RC_ASSERT(Json::parse(answer).at("NodeNameToMetaVictims") == expected);
  }));
}

// Requests that are nearly what kube-scheduler writes, with one thing different.
std::string AnyNearlyUsualBody(const std::vector<std::string>& names) {
  std::vector<std::string> asked =
      *rc::gen::container<std::vector<std::string>>(rc::gen::weightedOneOf<std::string>(
          {{9, rc::gen::elementOf(names)},
           {1, rc::gen::element<std::string>("x", "", "gpu-0-", "gpu\\u002d0-0", "a\\\"b", "ä")}}));
  std::string body = ArgsJson(PodShape{.gpus = 1}, asked);
  switch (*rc::gen::inRange(0, 5)) {
    case 0:
      break;
    case 1:
      body.resize(*rc::gen::inRange<size_t>(0, body.size()));
      break;
    case 2: {
      const auto end = static_cast<std::ptrdiff_t>(*rc::gen::inRange<size_t>(0, body.size()));
      body.insert(body.begin() + end, *rc::gen::element(' ', '"', '}', ']', ',', '\\', '{', '\n'));
      break;
    }
    case 3:
      body += *rc::gen::element<std::string>(" ", "\n ", "}", "]", "x", "\"", "{}");
      break;
    default: {
      // The key in places where it is not the root's.
      const std::string list = body.substr(body.find("\"NodeNames\""));
      const std::string pod = testing::PodJson(PodShape{.gpus = 1});
      body = *rc::gen::element<std::string>(
          "{\"Pod\":" + pod + ",\"x\\" + list, "{\"Pod\":" + pod + ",\"x\":{" + list,
          "{\"Pod\":" + pod + ",\"x\":{" + list + "}", "[{\"Pod\":" + pod + "," + list,
          "{\"Pod\":" + pod + ",\"nodenames\":[\"gpu-0-0\"]," + list,
          "{\"Pod\":" + pod + ",\"Nodes\":{\"items\":[{\"metadata\":{\"name\":\"gpu-0-0\"}}]}," +
              list,
          "{" + list.substr(0, list.size() - 1) + ",\"Pod\":" + pod + "}", "{" + list);
    }
  }
  return body;
}

TEST(ExtenderProperty, TheShortWayThroughNamesReadsWhatTheParserReads) {
  ViewBuilder builder({.supernodes = 3, .nodes_per_supernode = 4});
  const std::shared_ptr<const LedgerView> view = builder.Build();
  const auto table = std::make_shared<const extender::NodeTable>(*view);
  extender::RequestReader reader;
  reader.Use(table);
  ExpectProperty(rc::check("both ways give the same request", [&] {
    const PaddedBody body(AnyNearlyUsualBody(builder.NodeNames()));
    extender::NodesRequest by_parser;
    const absl::Status parsed = reader.ParseNodes(body.view(), extender::Verb::kFilter, by_parser);
    // Its texts die with the next read.
    const std::vector<std::string> unknown(by_parser.nodes.unknown.begin(),
                                           by_parser.nodes.unknown.end());
    const std::string pod(by_parser.pod.name);
    extender::NodesRequest read;
    const absl::Status status = reader.ReadNodes(body.view(), extender::Verb::kFilter, read);
    RC_ASSERT(status.ok() == parsed.ok());
    if (parsed.ok()) {
      RC_ASSERT(read.form == by_parser.form);
      RC_ASSERT(read.nodes.ids == by_parser.nodes.ids);
      RC_ASSERT(std::vector<std::string>(read.nodes.unknown.begin(), read.nodes.unknown.end()) ==
                unknown);
      RC_ASSERT(read.pod.name == pod);
    }
  }));
}

}  // namespace
}  // namespace asterism::scheduler
