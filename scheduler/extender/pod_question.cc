#include "scheduler/extender/pod_question.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "base/cut_text.h"
#include "base/status_macros.h"
#include "kube/pod_requests.h"
#include "kube/quantity.h"
#include "scheduler/gang_pod.h"

namespace asterism::scheduler::extender {
namespace {

// A pod of Kubernetes has a handful; more is an attack on our memory.
constexpr size_t kContainersMax = 1000;
constexpr size_t kResourcesMax = 1000;

// Sets `target` when the field is a string.
absl::Status TakeText(ondemand::value& value, std::string_view path, std::string_view& target) {
  std::optional<std::string_view> text;
  RETURN_IF_ERROR(ReadText(value, path, text));
  target = text.value_or(std::string_view());
  return absl::OkStatus();
}

absl::Status ReadLabels(ondemand::value& value, PodQuestion& pod) {
  return ForEachField(value, "Pod.metadata.labels",
                      [&](std::string_view key, ondemand::value& field) {
                        if (key == kJobUidLabel) {
                          return TakeText(field, "label asterism.dev/job-uid", pod.job_uid);
                        }
                        if (key == kJobLabel) {
                          return TakeText(field, "label asterism.dev/job", pod.job);
                        }
                        return absl::OkStatus();
                      });
}

absl::Status ReadAnnotations(ondemand::value& value, PodQuestion& pod) {
  return ForEachField(value, "Pod.metadata.annotations",
                      [&](std::string_view key, ondemand::value& field) {
                        if (key == kRanksAnnotation) {
                          return TakeText(field, "annotation asterism.dev/ranks", pod.ranks);
                        }
                        if (key == kEpochAnnotation) {
                          return TakeText(field, "annotation asterism.dev/epoch", pod.epoch);
                        }
                        return absl::OkStatus();
                      });
}

absl::Status ReadMetadata(ondemand::value& value, PodQuestion& pod) {
  return ForEachField(value, "Pod.metadata",
                      [&](std::string_view key, ondemand::value& field) -> absl::Status {
                        if (key == "namespace") {
                          return TakeText(field, "Pod.metadata.namespace", pod.namespace_name);
                        }
                        if (key == "name") {
                          return TakeText(field, "Pod.metadata.name", pod.name);
                        }
                        if (key == "uid") {
                          return TakeText(field, "Pod.metadata.uid", pod.uid);
                        }
                        if (key == "labels") {
                          return ReadLabels(field, pod);
                        }
                        if (key == "annotations") {
                          return ReadAnnotations(field, pod);
                        }
                        return absl::OkStatus();
                      });
}

// A quantity is a string, or a bare number as people write it.
absl::Status ReadQuantity(ondemand::value& value, std::string_view name, int64_t& amount) {
  std::string_view text = value.raw_json_token();
  const size_t end = text.find_last_not_of(" \t\r\n");
  text = text.substr(0, end + 1);
  if (text.starts_with('"')) {
    std::optional<std::string_view> unescaped;
    RETURN_IF_ERROR(ReadText(value, name, unescaped));
    text = *unescaped;
  }
  const absl::StatusOr<int64_t> parsed =
      name == "cpu" ? kube::ParseQuantityMilli(text) : kube::ParseQuantity(text);
  if (!parsed.ok()) {
    return WrongType("the request of " + base::CutText(name, 253),
                     "a quantity: " + base::CutText(text, 64));
  }
  amount = *parsed;
  return absl::OkStatus();
}

absl::Status ReadAmounts(ondemand::value& value, std::string_view path,
                         kube::ResourceAmounts& amounts) {
  amounts.clear();
  RETURN_IF_ERROR(
      ForEachField(value, path, [&](std::string_view key, ondemand::value& field) -> absl::Status {
        if (amounts.size() >= kResourcesMax) {
          return WrongType(path, "a list of at most 1000 resources");
        }
        kube::ResourceAmount& amount = amounts.emplace_back();
        amount.name = key;
        return ReadQuantity(field, key, amount.amount);
      }));
  // Sorted, no name twice: the last one rules, as in Go.
  std::stable_sort(amounts.begin(), amounts.end(),
                   [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto kept = std::unique(amounts.rbegin(), amounts.rend(),
                                [](const auto& a, const auto& b) { return a.name == b.name; });
  amounts.erase(amounts.begin(), kept.base());
  return absl::OkStatus();
}

absl::Status ReadResources(ondemand::value& value, kube::ResourceAmounts& requests,
                           kube::ResourceAmounts* limits) {
  return ForEachField(value, "resources",
                      [&](std::string_view key, ondemand::value& field) -> absl::Status {
                        if (key == "requests") {
                          return ReadAmounts(field, "resources.requests", requests);
                        }
                        if (key == "limits" && limits != nullptr) {
                          return ReadAmounts(field, "resources.limits", *limits);
                        }
                        return absl::OkStatus();
                      });
}

absl::Status ReadContainers(ondemand::value& value, std::string_view path,
                            std::vector<kube::ContainerRequests>& containers) {
  containers.clear();
  bool present = false;
  return ForEachElement(value, path, present, [&](ondemand::value& element) -> absl::Status {
    if (containers.size() >= kContainersMax) {
      return WrongType(path, "a list of at most 1000 containers");
    }
    kube::ContainerRequests& container = containers.emplace_back();
    return ForEachField(element, path,
                        [&](std::string_view key, ondemand::value& field) -> absl::Status {
                          if (key == "resources") {
                            return ReadResources(field, container.requests, &container.limits);
                          }
                          if (key == "restartPolicy") {
                            std::string_view policy;
                            RETURN_IF_ERROR(TakeText(field, "restartPolicy", policy));
                            container.restartable = policy == "Always";
                          }
                          return absl::OkStatus();
                        });
  });
}

absl::Status ReadSpec(ondemand::value& value, PodQuestion& pod) {
  kube::PodResources resources;
  RETURN_IF_ERROR(ForEachField(
      value, "Pod.spec", [&](std::string_view key, ondemand::value& field) -> absl::Status {
        if (key == "containers") {
          return ReadContainers(field, "Pod.spec.containers", resources.containers);
        }
        if (key == "initContainers") {
          return ReadContainers(field, "Pod.spec.initContainers", resources.init_containers);
        }
        if (key == "overhead") {
          return ReadAmounts(field, "Pod.spec.overhead", resources.overhead);
        }
        if (key == "resources") {
          return ReadResources(field, resources.pod_level, nullptr);
        }
        return absl::OkStatus();
      }));
  pod.requests = kube::EffectiveRequests(std::move(resources));
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadPod(ondemand::value& value, PodQuestion& pod) {
  return ForEachField(value, "Pod",
                      [&](std::string_view key, ondemand::value& field) -> absl::Status {
                        if (key == "metadata") {
                          return ReadMetadata(field, pod);
                        }
                        if (key == "spec") {
                          return ReadSpec(field, pod);
                        }
                        return absl::OkStatus();
                      });
}

absl::Status ReadPodUid(ondemand::value& value, std::string_view path, std::string_view& uid) {
  return ForEachField(
      value, path, [&](std::string_view key, ondemand::value& field) -> absl::Status {
        if (key != "metadata") {
          return absl::OkStatus();
        }
        return ForEachField(field, path, [&](std::string_view name, ondemand::value& text) {
          return name == "uid" ? TakeText(text, path, uid) : absl::OkStatus();
        });
      });
}

std::optional<int64_t> ParseCount(std::string_view text) {
  if (text.empty() || text[0] < '0' || text[0] > '9') {
    return std::nullopt;
  }
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
}

std::optional<RankRange> ParseRanks(std::string_view text) {
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) {
    return std::nullopt;
  }
  const std::optional<int64_t> first = ParseCount(text.substr(0, dash));
  const std::optional<int64_t> last = ParseCount(text.substr(dash + 1));
  if (!first.has_value() || !last.has_value() || *last < *first) {
    return std::nullopt;
  }
  return RankRange{*first, *last};
}

}  // namespace asterism::scheduler::extender
