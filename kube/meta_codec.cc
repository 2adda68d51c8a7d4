#include "kube/meta_codec.h"

#include <algorithm>
#include <iterator>

#include "base/cut_text.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "kube/quantity.h"

namespace asterism::kube {
namespace {

constexpr std::string_view kOurPrefix = "asterism.dev/";
constexpr size_t kOurValueBytesMax = 256;
constexpr size_t kOurPairsMax = 32;
constexpr size_t kMessageBytesMax = 1024;

void Keep(KeptPairs kept, std::string_view key, std::string_view value, StringPairs& pairs) {
  if (kept == KeptPairs::kOurs) {
    if (!key.starts_with(kOurPrefix) || value.size() > kOurValueBytesMax) {
      return;
    }
    pairs.emplace(key, value);
    if (pairs.size() > kOurPairsMax) {
      pairs.erase(std::prev(pairs.end()));
    }
    return;
  }
  pairs.emplace(key, value);
}

}  // namespace

std::string BoundedMessage(std::string_view text) {
  return base::CutText(text, kMessageBytesMax);
}

ObjectMeta MetaFrom(const metav1::ObjectMeta& message, KeptMeta kept) {
  ObjectMeta meta;
  meta.namespace_name = message.namespace_();
  meta.name = message.name();
  meta.uid = message.uid();
  meta.resource_version = message.resourceversion();
  meta.generation = message.generation();
  if (message.has_creationtimestamp()) {
    meta.creation_time = TimeFrom(message.creationtimestamp());
  }
  if (message.has_deletiontimestamp()) {
    meta.deletion_time = TimeFrom(message.deletiontimestamp());
  }
  for (const auto& [key, value] : message.labels()) {
    Keep(kept.labels, key, value, meta.labels);
  }
  for (const auto& [key, value] : message.annotations()) {
    Keep(kept.annotations, key, value, meta.annotations);
  }
  meta.owners.reserve(static_cast<size_t>(message.ownerreferences_size()));
  for (const metav1::OwnerReference& owner : message.ownerreferences()) {
    meta.owners.push_back(
        {owner.apiversion(), owner.kind(), owner.name(), owner.uid(), owner.controller()});
  }
  return meta;
}

ObjectMeta MetaFrom(JsonReader& reader, const JsonObject& root, KeptMeta kept) {
  ObjectMeta meta;
  reader.Child(root, "metadata", [&](const JsonObject& object) {
    meta.namespace_name = reader.Text(object, "namespace");
    meta.name = reader.Text(object, "name");
    meta.uid = reader.Text(object, "uid");
    meta.resource_version = reader.Text(object, "resourceVersion");
    meta.generation = reader.Integer(object, "generation");
    meta.creation_time = reader.Time(object, "creationTimestamp", absl::InfinitePast());
    const absl::Time deleted = reader.Time(object, "deletionTimestamp", absl::InfinitePast());
    if (deleted != absl::InfinitePast()) {
      meta.deletion_time = deleted;
    }
    reader.EachPair(object, "labels", [&](std::string_view key, std::string_view value) {
      Keep(kept.labels, key, value, meta.labels);
    });
    reader.EachPair(object, "annotations", [&](std::string_view key, std::string_view value) {
      Keep(kept.annotations, key, value, meta.annotations);
    });
    reader.Each(object, "ownerReferences", [&](const JsonObject& owner) {
      meta.owners.push_back({reader.Text(owner, "apiVersion"), reader.Text(owner, "kind"),
                             reader.Text(owner, "name"), reader.Text(owner, "uid"),
                             reader.Flag(owner, "controller")});
    });
  });
  return meta;
}

std::vector<Condition> ConditionsFrom(JsonReader& reader, const JsonObject& status) {
  std::vector<Condition> conditions;
  reader.Each(status, "conditions", [&](const JsonObject& object) {
    Condition& condition = conditions.emplace_back();
    condition.type = reader.Text(object, "type");
    condition.status = reader.Text(object, "status");
    condition.observed_generation = reader.Integer(object, "observedGeneration");
    condition.last_transition_time =
        reader.Time(object, "lastTransitionTime", absl::InfinitePast());
    condition.reason = reader.Text(object, "reason");
    condition.message = BoundedMessage(reader.Text(object, "message"));
  });
  return conditions;
}

ResourceAmount* FindAmount(ResourceAmounts& amounts, std::string_view name) {
  const auto found = std::lower_bound(
      amounts.begin(), amounts.end(), name,
      [](const ResourceAmount& amount, std::string_view wanted) { return amount.name < wanted; });
  return found != amounts.end() && found->name == name ? &*found : nullptr;
}

absl::Status AddAmount(std::string_view name, std::string_view quantity, ResourceAmounts& amounts) {
  const absl::StatusOr<int64_t> amount =
      name == "cpu" ? ParseQuantityMilli(quantity) : ParseQuantity(quantity);
  if (!amount.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("resource {}: {}", name, std::string(amount.status().message())));
  }
  if (ResourceAmount* known = FindAmount(amounts, name); known != nullptr) {
    known->amount = SaturatingAdd(known->amount, *amount);
    return absl::OkStatus();
  }
  const auto position = std::lower_bound(
      amounts.begin(), amounts.end(), name,
      [](const ResourceAmount& other, std::string_view wanted) { return other.name < wanted; });
  amounts.insert(position, ResourceAmount{std::string(name), *amount});
  return absl::OkStatus();
}

absl::StatusOr<ResourceAmounts> AmountsFrom(const QuantityMap& map) {
  ResourceAmounts amounts;
  amounts.reserve(map.size());
  for (const auto& [name, quantity] : map) {
    RETURN_IF_ERROR(AddAmount(name, quantity.string(), amounts));
  }
  return amounts;
}

ResourceAmounts AmountsFrom(JsonReader& reader, const JsonObject& object, std::string_view key) {
  ResourceAmounts amounts;
  reader.EachPair(object, key, [&](std::string_view name, std::string_view quantity) {
    if (!AddAmount(name, quantity, amounts).ok()) {
      reader.Complain(name, "a quantity");
    }
  });
  return amounts;
}

}  // namespace asterism::kube
