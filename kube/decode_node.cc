#include "base/status_macros.h"
#include "k8s/core.pb.h"
#include "kube/decoder.h"
#include "kube/meta_codec.h"
#include "kube/node.h"

namespace asterism::kube {
namespace {

namespace pb = ::k8s::io::api::core::v1;

// Every label of a node can be a level of the topology or part of a selector.
constexpr KeptMeta kKeptOfNode{.annotations = KeptPairs::kOurs};

absl::StatusOr<Node> DecodeNodeJson(std::string_view text) {
  JsonReader reader;
  ASSIGN_OR_RETURN(const JsonObject root, reader.Parse(text));
  Node node;
  node.meta = MetaFrom(reader, root, kKeptOfNode);
  reader.Child(root, "spec", [&](const JsonObject& spec) {
    node.unschedulable = reader.Flag(spec, "unschedulable");
    reader.Each(spec, "taints", [&](const JsonObject& taint) {
      node.taints.push_back(
          {reader.Text(taint, "key"), reader.Text(taint, "value"), reader.Text(taint, "effect")});
    });
  });
  reader.Child(root, "status", [&](const JsonObject& status) {
    node.capacity = AmountsFrom(reader, status, "capacity");
    node.allocatable = AmountsFrom(reader, status, "allocatable");
    node.conditions = ConditionsFrom(reader, status);
  });
  RETURN_IF_ERROR(reader.status());
  return node;
}

}  // namespace

bool Node::Ready() const {
  const Condition* ready = FindCondition(conditions, "Ready");
  return ready != nullptr && ready->status == "True";
}

absl::StatusOr<Node> DecodeNode(const RawObject& object) {
  if (object.encoding == Encoding::kJson) {
    return DecodeNodeJson(object.bytes);
  }
  google::protobuf::Arena arena;
  ASSIGN_OR_RETURN(const pb::Node* message, ParseMessage<pb::Node>(object.bytes, arena));
  Node node;
  node.meta = MetaFrom(message->metadata(), kKeptOfNode);
  node.unschedulable = message->spec().unschedulable();
  for (const pb::Taint& taint : message->spec().taints()) {
    node.taints.push_back({taint.key(), taint.value(), taint.effect()});
  }
  ASSIGN_OR_RETURN(node.capacity, AmountsFrom(message->status().capacity()));
  ASSIGN_OR_RETURN(node.allocatable, AmountsFrom(message->status().allocatable()));
  for (const pb::NodeCondition& condition : message->status().conditions()) {
    node.conditions.push_back(ConditionFrom(condition));
  }
  return node;
}

}  // namespace asterism::kube
