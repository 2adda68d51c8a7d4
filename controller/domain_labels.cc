#include "controller/domain_labels.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "topology/node_labels.h"
#include "topology/topology_keeper.h"

namespace asterism::controller {
namespace {

using nlohmann::json;

constexpr size_t kLabelValueMax = 63;
constexpr int kWritesAtOnce = 10;
constexpr absl::Duration kPause = absl::Milliseconds(1000 * kWritesAtOnce / kLabelWritesPerSecond);
constexpr absl::Duration kLabelRetry = absl::Seconds(5);
constexpr kube::ResourceType kNodesAsJson{"", "v1", "nodes", "Node", false, /*protobuf=*/false};

bool IsLetterOrDigit(char letter) {
  return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
         (letter >= 'A' && letter <= 'Z');
}

}  // namespace

std::string LabelValue(std::string_view value) {
  const bool valid =
      value.size() <= kLabelValueMax &&
      (value.empty() || (IsLetterOrDigit(value.front()) && IsLetterOrDigit(value.back()))) &&
      std::all_of(value.begin(), value.end(), [](char letter) {
        return IsLetterOrDigit(letter) || letter == '-' || letter == '_' || letter == '.';
      });
  return valid ? std::string(value) : fmt::format("hash-{:016x}", base::Fnv1a(value));
}

DomainLabels::DomainLabels(base::Executor& executor, kube::Client& client,
                           const operators::ClusterFeed& feed, std::vector<std::string> levels,
                           std::function<bool()> may_write)
    : client_(client),
      feed_(feed),
      levels_(std::move(levels)),
      may_write_(std::move(may_write)),
      timer_(executor) {}

void DomainLabels::Start(const kube::Store<kube::Node>& nodes) {
  nodes_ = &nodes;
  LookAtAll();
}

void DomainLabels::OnNode(const kube::Change<kube::Node>& change) {
  if (change.after != nullptr) {
    Look(*change.after);
  }
}

void DomainLabels::LookAtAll() {
  nodes_->ForEach([this](const kube::Shared<kube::Node>& node) { Look(*node); });
}

std::string DomainLabels::PatchFor(const kube::Node& node) const {
  const auto domains = feed_.topology().DomainLabels(node.meta.name);
  if (!domains.has_value()) {
    return "";  // no GPU node, or not yet in the model
  }
  json labels = json::object();
  std::string measured;
  for (size_t level = 0; level < levels_.size() && level < domains->size(); ++level) {
    const std::string key = std::string(topology::kDomainLabelPrefix) + levels_[level];
    const std::string wanted = LabelValue((*domains)[level].value);
    if ((*domains)[level].measured) {
      measured += (measured.empty() ? "" : ",") + levels_[level];
    }
    if (wanted != node.meta.Label(key)) {
      labels[key] = wanted.empty() ? json(nullptr) : json(wanted);
    }
  }
  json patch = json::object();
  if (!labels.empty()) {
    patch["metadata"]["labels"] = std::move(labels);
  }
  const auto written = node.meta.annotations.find(topology::kMeasuredLevels);
  if (measured != (written == node.meta.annotations.end() ? "" : written->second)) {
    patch["metadata"]["annotations"][topology::kMeasuredLevels] =
        measured.empty() ? json(nullptr) : json(measured);
  }
  return patch.empty() ? "" : patch.dump();
}

void DomainLabels::Look(const kube::Node& node) {
  if (!known_.contains(node.meta.name) && !PatchFor(node).empty()) {
    known_.insert(node.meta.name);
    waiting_.push_back(node.meta.name);
    if (!timer_.pending()) {
      timer_.Start(kPause, [this] { Pump(); });
    }
  }
}

void DomainLabels::Pump() {
  for (int i = 0; i < kWritesAtOnce && !waiting_.empty() && may_write_(); ++i) {
    const std::string name = std::move(waiting_.front());
    waiting_.pop_front();
    Write(name);
  }
  if (!waiting_.empty()) {
    timer_.Start(kPause, [this] { Pump(); });
  }
}

void DomainLabels::Write(const std::string& name) {
  const kube::Shared<kube::Node> node = nodes_->Find(name);
  const std::string patch = node == nullptr ? "" : PatchFor(*node);
  if (patch.empty()) {
    known_.erase(name);
    return;
  }
  client_.Patch(kNodesAsJson, {"", name}, patch, {.type = kube::PatchType::kMerge},
                alive_.Wrap([this, name](const absl::StatusOr<kube::Reply>& reply) {
                  OnWritten(name, reply.status());
                }));
}

void DomainLabels::OnWritten(const std::string& name, const absl::Status& status) {
  if (status.ok() || absl::IsNotFound(status)) {
    known_.erase(name);
    failing_ = false;
    return;
  }
  // One line for as long as nothing can be written.
  if (!absl::IsAborted(status) && !std::exchange(failing_, true)) {
    base::LogWarning("node_not_labelled",
                     {{"node", name}, {"error", std::string(status.message())}});
  }
  waiting_.push_back(name);
  if (!timer_.pending()) {
    timer_.Start(kLabelRetry, [this] { Pump(); });
  }
}

}  // namespace asterism::controller
