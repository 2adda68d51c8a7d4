#include "operator/template_fit.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "nlohmann/json.hpp"
#include "operator/json_fields.h"

namespace asterism::operators {
namespace {

using nlohmann::json;

constexpr size_t kTermsMax = 64;

std::string Text(const json& object, const char* key) {
  const json& value = Member(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::vector<NodeRequirement> ReadTerm(const json& term) {
  std::vector<NodeRequirement> requirements;
  for (const json& item : Member(term, "matchExpressions")) {
    NodeRequirement requirement{Text(item, "key"), Text(item, "operator"), {}};
    for (const json& value : Member(item, "values")) {
      if (value.is_string()) {
        requirement.values.push_back(value.get<std::string>());
      }
    }
    if (requirement.key != kHostnameLabel) {
      requirements.push_back(std::move(requirement));
    }
  }
  return requirements;
}

bool CompareNumbers(const std::string& label, const NodeRequirement& requirement, bool greater) {
  int64_t have = 0;
  int64_t bound = 0;
  if (requirement.values.size() != 1 || !absl::SimpleAtoi(label, &have) ||
      !absl::SimpleAtoi(requirement.values[0], &bound)) {
    return false;
  }
  return greater ? have > bound : have < bound;
}

// The rules of k8s.io/component-helpers/scheduling/corev1/nodeaffinity.
bool Meets(const NodeRequirement& requirement, const kube::StringPairs& labels) {
  const auto label = labels.find(requirement.key);
  const bool present = label != labels.end();
  const bool listed = present && std::find(requirement.values.begin(), requirement.values.end(),
                                           label->second) != requirement.values.end();
  if (requirement.op == "In") {
    return listed;
  }
  if (requirement.op == "NotIn") {
    return !listed;
  }
  if (requirement.op == "Exists") {
    return present;
  }
  if (requirement.op == "DoesNotExist") {
    return !present;
  }
  if (requirement.op == "Gt" || requirement.op == "Lt") {
    return present && CompareNumbers(label->second, requirement, requirement.op == "Gt");
  }
  return false;
}

bool Tolerates(const Toleration& toleration, const kube::Taint& taint) {
  if (!toleration.effect.empty() && toleration.effect != taint.effect) {
    return false;
  }
  if (toleration.key.empty()) {
    return toleration.op == "Exists";
  }
  return toleration.key == taint.key &&
         (toleration.op == "Exists" || toleration.value == taint.value);
}

bool TermMatches(const std::vector<NodeRequirement>& term, const kube::StringPairs& labels) {
  return std::all_of(term.begin(), term.end(), [&](const NodeRequirement& requirement) {
    return Meets(requirement, labels);
  });
}

}  // namespace

size_t RuleCount(const TemplateFit& fit) {
  size_t rules = fit.node_selector.size() + fit.tolerations.size();
  for (const auto& term : fit.terms) {
    for (const NodeRequirement& requirement : term) {
      rules += 1 + requirement.values.size();
    }
  }
  return rules;
}

TemplateFit ReadTemplateFit(const json& pod_spec) {
  TemplateFit fit;
  const json& selector = Member(pod_spec, "nodeSelector");
  if (selector.is_object()) {
    for (const auto& [key, value] : selector.items()) {
      if (value.is_string() && key != kHostnameLabel) {
        fit.node_selector[key] = value.get<std::string>();
      }
    }
  }
  const json& required = Member(Member(Member(pod_spec, "affinity"), "nodeAffinity"),
                                "requiredDuringSchedulingIgnoredDuringExecution");
  for (const json& term : Member(required, "nodeSelectorTerms")) {
    if (fit.terms.size() < kTermsMax) {
      fit.terms.push_back(ReadTerm(term));
    }
  }
  for (const json& item : Member(pod_spec, "tolerations")) {
    std::string op = Text(item, "operator");
    fit.tolerations.push_back(
        {Text(item, "key"), op.empty() ? "Equal" : op, Text(item, "value"), Text(item, "effect")});
  }
  return fit;
}

bool KeepsPodsAway(const kube::Taint& taint) {
  return taint.effect != "PreferNoSchedule";
}

bool Accepts(const TemplateFit& fit, const kube::StringPairs& labels,
             const std::vector<kube::Taint>& taints) {
  for (const auto& [key, value] : fit.node_selector) {
    const auto label = labels.find(key);
    if (label == labels.end() || label->second != value) {
      return false;
    }
  }
  if (!fit.terms.empty() && std::none_of(fit.terms.begin(), fit.terms.end(), [&](const auto& term) {
        return TermMatches(term, labels);
      })) {
    return false;
  }
  return std::all_of(taints.begin(), taints.end(), [&](const kube::Taint& taint) {
    return !KeepsPodsAway(taint) ||
           std::any_of(fit.tolerations.begin(), fit.tolerations.end(),
                       [&](const Toleration& toleration) { return Tolerates(toleration, taint); });
  });
}

}  // namespace asterism::operators
