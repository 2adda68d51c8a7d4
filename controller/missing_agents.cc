#include "controller/missing_agents.h"

#include <utility>

#include "base/cut_text.h"
#include "base/log.h"
#include "operator/node_ranges.h"

namespace asterism::controller {
namespace {

constexpr size_t kNamesBytesMax = 512;

}  // namespace

MissingAgents::MissingAgents(const base::Clock& clock, base::MetricRegistry& registry,
                             MissingAgentsOptions options)
    : clock_(clock),
      options_(std::move(options)),
      gauge_(registry
                 .AddGauge("asterism_agents_missing",
                           "Ready GPU nodes that should have an agent and have had none for two "
                           "minutes.")
                 .With({})) {
  if (!options_.selector.empty()) {
    fit_.terms = {options_.selector};
  }
}

bool MissingAgents::ShouldHaveOne(const kube::Node& node,
                                  const operators::ClusterFeed& feed) const {
  return node.Ready() && feed.IsGpuNode(node.meta.name) &&
         operators::Accepts(fit_, node.meta.labels, {});
}

void MissingAgents::Look(const kube::Store<kube::Node>& nodes, const operators::ClusterFeed& feed,
                         const AgentRegistry& agents, bool leading) {
  const base::SteadyTime now = clock_.SteadyNow();
  const auto before = std::exchange(since_, {});
  missing_.clear();
  if (options_.enabled && leading) {
    nodes.ForEach([&](const kube::Shared<kube::Node>& node) {
      const std::string& name = node->meta.name;
      if (agents.HasAgent(name) || !ShouldHaveOne(*node, feed)) {
        return;
      }
      const auto known = before.find(name);
      since_[name] = known == before.end() ? now : known->second;
    });
  }
  for (const auto& [name, since] : since_) {
    if (now - since >= options_.grace) {
      missing_.push_back(name);
    }
  }
  gauge_.Set(static_cast<double>(missing_.size()));
  if (leading) {
    Tell();
  } else {
    told_.clear();
  }
}

// A cluster without agents, or one that flaps, must not fill the log.
void MissingAgents::Tell() {
  const base::SteadyTime now = clock_.SteadyNow();
  if (missing_ == told_ || (told_at_ && now - *told_at_ < options_.tell_period)) {
    return;
  }
  told_ = missing_;
  told_at_ = now;
  if (missing_.empty()) {
    base::LogInfo("agents_complete", {});
    return;
  }
  base::LogWarning(
      "agents_missing",
      {{"count", uint64_t{missing_.size()}},
       {"nodes", std::string(base::CutText(operators::FormatNodeRanges(missing_), kNamesBytesMax))},
       {"remedy",
        "kubectl get pods --all-namespaces -o wide shows the agents of these nodes; see "
        "AsterismAgentsMissing in docs/operations.md"}});
}

}  // namespace asterism::controller
