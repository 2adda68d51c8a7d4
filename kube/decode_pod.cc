#include "base/status_macros.h"
#include "k8s/core.pb.h"
#include "kube/decoder.h"
#include "kube/meta_codec.h"
#include "kube/pod_requests.h"

namespace asterism::kube {
namespace {

bool AboutToStart(std::string_view reason) {
  return reason.empty() || reason == "ContainerCreating" || reason == "PodInitializing";
}

namespace pb = ::k8s::io::api::core::v1;

constexpr KeptMeta kKeptOfPod{.labels = KeptPairs::kOurs, .annotations = KeptPairs::kOurs};

// Finds the one node name that all terms of a required node affinity agree on. Terms are
// alternatives, so a term without a name, or with another one, leaves the pod unpinned.
class PinFinder {
 public:
  void BeginTerm() {
    ++terms_;
    named_ = false;
  }
  void Field(std::string_view key, std::string_view op, size_t count, std::string_view value) {
    if (key != "metadata.name" || op != "In" || count != 1 || named_) {
      return;
    }
    named_ = true;
    ++named_terms_;
    if (name_.empty()) {
      name_ = value;
    }
    agree_ = agree_ && name_ == value;
  }
  std::string Name() const { return agree_ && terms_ == named_terms_ ? name_ : std::string(); }

 private:
  int terms_ = 0;
  int named_terms_ = 0;
  bool named_ = false;
  bool agree_ = true;
  std::string name_;
};

std::string PinnedNode(const pb::NodeSelector& selector) {
  PinFinder finder;
  for (const pb::NodeSelectorTerm& term : selector.nodeselectorterms()) {
    finder.BeginTerm();
    for (const pb::NodeSelectorRequirement& field : term.matchfields()) {
      finder.Field(field.key(), field.operator_(), static_cast<size_t>(field.values_size()),
                   field.values_size() > 0 ? field.values(0) : std::string());
    }
  }
  return finder.Name();
}

std::string PinnedNode(JsonReader& reader, const JsonObject& selector) {
  PinFinder finder;
  reader.Each(selector, "nodeSelectorTerms", [&](const JsonObject& term) {
    finder.BeginTerm();
    reader.Each(term, "matchFields", [&](const JsonObject& field) {
      size_t count = 0;
      std::string first;
      reader.EachText(field, "values", [&](std::string_view value) {
        if (count++ == 0) {
          first = value;
        }
      });
      finder.Field(reader.Text(field, "key"), reader.Text(field, "operator"), count, first);
    });
  });
  return finder.Name();
}

template <typename Containers>
absl::Status AppendRequests(const Containers& containers, std::vector<ContainerRequests>& list) {
  list.reserve(static_cast<size_t>(containers.size()));
  for (const pb::Container& container : containers) {
    ContainerRequests& entry = list.emplace_back();
    ASSIGN_OR_RETURN(entry.requests, AmountsFrom(container.resources().requests()));
    ASSIGN_OR_RETURN(entry.limits, AmountsFrom(container.resources().limits()));
    entry.restartable = container.restartpolicy() == "Always";
  }
  return absl::OkStatus();
}

absl::Status DecodePodSpec(const pb::PodSpec& spec, Pod& pod) {
  pod.node_name = spec.nodename();
  pod.pinned_node_name =
      PinnedNode(spec.affinity().nodeaffinity().requiredduringschedulingignoredduringexecution());
  pod.scheduler_name = spec.schedulername();
  pod.priority_class_name = spec.priorityclassname();
  pod.priority = spec.priority();
  pod.gated = spec.schedulinggates_size() > 0;
  PodResources resources;
  RETURN_IF_ERROR(AppendRequests(spec.containers(), resources.containers));
  RETURN_IF_ERROR(AppendRequests(spec.initcontainers(), resources.init_containers));
  ASSIGN_OR_RETURN(resources.pod_level, AmountsFrom(spec.resources().requests()));
  ASSIGN_OR_RETURN(resources.overhead, AmountsFrom(spec.overhead()));
  pod.requests = EffectiveRequests(std::move(resources));
  return absl::OkStatus();
}

void DecodeWaiting(const google::protobuf::RepeatedPtrField<pb::ContainerStatus>& containers,
                   Pod& pod) {
  for (const pb::ContainerStatus& container : containers) {
    const pb::ContainerStateWaiting& waiting = container.state().waiting();
    if (container.state().has_waiting() && !AboutToStart(waiting.reason())) {
      pod.waiting.push_back(
          {container.name(), waiting.reason(), BoundedMessage(waiting.message())});
    }
  }
}

void DecodePodStatus(const pb::PodStatus& status, Pod& pod) {
  pod.phase = status.phase();
  pod.reason = status.reason();
  pod.message = BoundedMessage(status.message());
  pod.conditions.reserve(static_cast<size_t>(status.conditions_size()));
  for (const pb::PodCondition& condition : status.conditions()) {
    pod.conditions.push_back(ConditionFrom(condition));
    pod.conditions.back().observed_generation = condition.observedgeneration();
  }
  DecodeWaiting(status.initcontainerstatuses(), pod);
  DecodeWaiting(status.containerstatuses(), pod);
  for (const pb::ContainerStatus& container : status.containerstatuses()) {
    if (!container.state().has_terminated()) {
      continue;
    }
    const pb::ContainerStateTerminated& end = container.state().terminated();
    TerminatedContainer& terminated = pod.terminated.emplace_back();
    terminated.name = container.name();
    terminated.exit_code = end.exitcode();
    terminated.signal = end.signal();
    terminated.reason = end.reason();
    terminated.message = BoundedMessage(end.message());
    if (end.has_finishedat()) {
      terminated.finished_at = TimeFrom(end.finishedat());
    }
  }
}

void AppendRequests(JsonReader& reader, const JsonObject& spec, std::string_view key,
                    std::vector<ContainerRequests>& list) {
  reader.Each(spec, key, [&](const JsonObject& container) {
    ContainerRequests& entry = list.emplace_back();
    reader.Child(container, "resources", [&](const JsonObject& resources) {
      entry.requests = AmountsFrom(reader, resources, "requests");
      entry.limits = AmountsFrom(reader, resources, "limits");
    });
    entry.restartable = reader.Text(container, "restartPolicy") == "Always";
  });
}

void DecodePodSpec(JsonReader& reader, const JsonObject& spec, Pod& pod) {
  pod.node_name = reader.Text(spec, "nodeName");
  reader.Child(spec, "affinity", [&](const JsonObject& affinity) {
    reader.Child(affinity, "nodeAffinity", [&](const JsonObject& node_affinity) {
      reader.Child(
          node_affinity, "requiredDuringSchedulingIgnoredDuringExecution",
          [&](const JsonObject& selector) { pod.pinned_node_name = PinnedNode(reader, selector); });
    });
  });
  pod.scheduler_name = reader.Text(spec, "schedulerName");
  pod.priority_class_name = reader.Text(spec, "priorityClassName");
  pod.priority = static_cast<int32_t>(reader.Integer(spec, "priority"));
  reader.Each(spec, "schedulingGates", [&](const JsonObject&) { pod.gated = true; });
  PodResources resources;
  AppendRequests(reader, spec, "containers", resources.containers);
  AppendRequests(reader, spec, "initContainers", resources.init_containers);
  reader.Child(spec, "resources", [&](const JsonObject& pod_level) {
    resources.pod_level = AmountsFrom(reader, pod_level, "requests");
  });
  resources.overhead = AmountsFrom(reader, spec, "overhead");
  pod.requests = EffectiveRequests(std::move(resources));
}

void DecodeWaiting(JsonReader& reader, const JsonObject& status, std::string_view list, Pod& pod) {
  reader.Each(status, list, [&](const JsonObject& container) {
    reader.Child(container, "state", [&](const JsonObject& state) {
      reader.Child(state, "waiting", [&](const JsonObject& waiting) {
        if (!AboutToStart(reader.Text(waiting, "reason"))) {
          pod.waiting.push_back({std::string(reader.Text(container, "name")),
                                 std::string(reader.Text(waiting, "reason")),
                                 BoundedMessage(reader.Text(waiting, "message"))});
        }
      });
    });
  });
}

void DecodePodStatus(JsonReader& reader, const JsonObject& status, Pod& pod) {
  pod.phase = reader.Text(status, "phase");
  pod.reason = reader.Text(status, "reason");
  pod.message = BoundedMessage(reader.Text(status, "message"));
  pod.conditions = ConditionsFrom(reader, status);
  DecodeWaiting(reader, status, "initContainerStatuses", pod);
  DecodeWaiting(reader, status, "containerStatuses", pod);
  reader.Each(status, "containerStatuses", [&](const JsonObject& container) {
    reader.Child(container, "state", [&](const JsonObject& state) {
      reader.Child(state, "terminated", [&](const JsonObject& end) {
        TerminatedContainer& terminated = pod.terminated.emplace_back();
        terminated.name = reader.Text(container, "name");
        terminated.exit_code = static_cast<int32_t>(reader.Integer(end, "exitCode"));
        terminated.signal = static_cast<int32_t>(reader.Integer(end, "signal"));
        terminated.reason = reader.Text(end, "reason");
        terminated.message = BoundedMessage(reader.Text(end, "message"));
        terminated.finished_at = reader.Time(end, "finishedAt", absl::InfiniteFuture());
      });
    });
  });
}

absl::StatusOr<Pod> DecodePodJson(std::string_view text) {
  JsonReader reader;
  ASSIGN_OR_RETURN(const JsonObject root, reader.Parse(text));
  Pod pod;
  pod.meta = MetaFrom(reader, root, kKeptOfPod);
  reader.Child(root, "spec", [&](const JsonObject& spec) { DecodePodSpec(reader, spec, pod); });
  reader.Child(root, "status",
               [&](const JsonObject& status) { DecodePodStatus(reader, status, pod); });
  RETURN_IF_ERROR(reader.status());
  return pod;
}

}  // namespace

absl::StatusOr<Pod> DecodePod(const RawObject& object) {
  if (object.encoding == Encoding::kJson) {
    return DecodePodJson(object.bytes);
  }
  google::protobuf::Arena arena;
  ASSIGN_OR_RETURN(const pb::Pod* message, ParseMessage<pb::Pod>(object.bytes, arena));
  Pod pod;
  pod.meta = MetaFrom(message->metadata(), kKeptOfPod);
  RETURN_IF_ERROR(DecodePodSpec(message->spec(), pod));
  DecodePodStatus(message->status(), pod);
  return pod;
}

}  // namespace asterism::kube
