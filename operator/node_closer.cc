#include "operator/node_closer.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "nlohmann/json.hpp"
#include "operator/direct_commit.h"

namespace asterism::operators {
namespace {

using nlohmann::json;

constexpr absl::Duration kRetry = absl::Seconds(5);
// Read and written as JSON, so that what is not known here comes back as it was.
constexpr kube::ResourceType kNodesAsJson{"", "v1", "nodes", "Node", false, /*protobuf=*/false};

// The change that adds the taint to what was read; null: it is there already.
json ClosingPatch(const json& node) {
  json taints = node.value("/spec/taints"_json_pointer, json::array());
  const json ours = {{"key", kManagedTaint}, {"effect", "NoSchedule"}};
  const bool closed = std::any_of(taints.begin(), taints.end(), [&ours](const json& taint) {
    return taint.value("key", "") == ours["key"] && taint.value("effect", "") == ours["effect"];
  });
  if (closed) {
    return nullptr;
  }
  taints.push_back(ours);
  json patch;
  patch["metadata"]["resourceVersion"] = node.value("/metadata/resourceVersion"_json_pointer, "");
  patch["spec"]["taints"] = std::move(taints);
  return patch;
}

}  // namespace

NodeCloser::NodeCloser(base::Executor& executor, kube::Client& client, const ClusterFeed& feed,
                       std::function<bool()> may_write)
    : client_(client), feed_(feed), may_write_(std::move(may_write)), retry_timer_(executor) {}

void NodeCloser::Start(const kube::Store<kube::Node>& nodes) {
  nodes.ForEach([this](const kube::Shared<kube::Node>& node) { Look(node->meta.name); });
}

void NodeCloser::OnNode(const kube::Change<kube::Node>& change) {
  if (change.after != nullptr) {
    Look(change.after->meta.name);
  }
}

void NodeCloser::Look(const std::string& name) {
  if (feed_.IsGpuNode(name) && !feed_.IsClosed(name) && known_.insert(name).second) {
    waiting_.push_back(name);
    Next();
  }
}

void NodeCloser::Next() {
  while (!waiting_.empty() && in_flight_.size() < kInFlightMax && may_write_()) {
    const std::string name = std::move(waiting_.front());
    waiting_.pop_front();
    in_flight_.insert(name);
    Read(name);
  }
}

// By then the watch shows what was written, or that somebody has opened the node again.
void NodeCloser::LookLater(const std::string& name) {
  later_.push_back(name);
  if (!retry_timer_.pending()) {
    retry_timer_.Start(kRetry, [this] {
      for (const std::string& each : std::exchange(later_, {})) {
        known_.erase(each);
        Look(each);
      }
    });
  }
}

void NodeCloser::Read(const std::string& name) {
  client_.Get(
      kNodesAsJson, {"", name}, kube::Lane::kWrite,
      alive_.Wrap([this, name](const absl::StatusOr<kube::Reply>& reply) { OnRead(name, reply); }));
}

void NodeCloser::OnRead(const std::string& name, const absl::StatusOr<kube::Reply>& reply) {
  if (!reply.ok()) {
    Fail(name, reply.status());
    return;
  }
  json patch;
  try {
    patch = ClosingPatch(json::parse(reply->body));
  } catch (const json::exception& error) {
    Fail(name, absl::InternalError(error.what()));
    return;
  }
  if (patch.is_null() || !may_write_()) {
    OnWritten(name, absl::OkStatus());
    return;
  }
  client_.Patch(kNodesAsJson, {"", name}, patch.dump(), {.type = kube::PatchType::kMerge},
                alive_.Wrap([this, name](const absl::StatusOr<kube::Reply>& written) {
                  OnWritten(name, written.status());
                }));
}

void NodeCloser::OnWritten(const std::string& name, const absl::Status& status) {
  if (!status.ok()) {
    Fail(name, status);
    return;
  }
  in_flight_.erase(name);
  if (feed_.IsClosed(name)) {
    known_.erase(name);
  } else {
    LookLater(name);
  }
  Next();
}

void NodeCloser::Fail(const std::string& name, const absl::Status& status) {
  in_flight_.erase(name);
  if (absl::IsNotFound(status)) {
    known_.erase(name);
  } else {
    // Somebody else has changed the node meanwhile: nothing to speak of.
    if (!absl::IsAborted(status)) {
      base::LogWarning("node_not_closed",
                       {{"node", name}, {"error", std::string(status.message())}});
    }
    LookLater(name);
  }
  Next();
}

}  // namespace asterism::operators
