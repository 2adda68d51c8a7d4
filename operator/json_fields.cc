#include "operator/json_fields.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/cut_text.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace asterism::operators {
namespace {

using nlohmann::json;

constexpr std::string_view kGoZeroTime = "0001-01-01T00:00:00Z";
constexpr size_t kConditionMessageBytesMax = 32768;
constexpr size_t kConditionsMax = 64;

// Looks at brackets outside strings only; a text that is no JSON at all is found by the parser.
bool DeeperThan(std::string_view text, int depth_max) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > depth_max) {
        return true;
      }
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

std::optional<absl::Time> ParseRfc3339(std::string_view text) {
  if (text == kGoZeroTime) {
    return absl::InfinitePast();
  }
  // Abseil also reads words such as "infinite-future".
  if (text.size() < kGoZeroTime.size() || text.size() > 40 || text[0] < '0' || text[0] > '9') {
    return std::nullopt;
  }
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, base::ToAbsl(text), &time, &error)) {
    return std::nullopt;
  }
  return time;
}

std::string FormatUtc(const char* format, absl::Time time) {
  static const absl::Time kFirst = absl::FromCivil(absl::CivilSecond(1, 1, 1), absl::UTCTimeZone());
  static const absl::Time kEnd =
      absl::FromCivil(absl::CivilSecond(10000, 1, 1), absl::UTCTimeZone());
  if (time < kFirst || time >= kEnd) {
    return std::string(kGoZeroTime);
  }
  return absl::FormatTime(format, time, absl::UTCTimeZone());
}

}  // namespace

absl::StatusOr<json> ParseObjectText(std::string_view text, std::string_view kind) {
  if (text.size() > kObjectBytesMax) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: {} bytes are more than an object may have ({})", kind, text.size(), kObjectBytesMax));
  }
  if (DeeperThan(text, kObjectDepthMax)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: nested deeper than {}: make it flatter", kind, kObjectDepthMax));
  }
  json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return absl::InvalidArgumentError(fmt::format("{}: not a JSON object", kind));
  }
  if (auto metadata = object.find("metadata"); metadata != object.end() && metadata->is_object()) {
    metadata->erase("managedFields");
  }
  return object;
}

JsonFields::JsonFields(const json* object, std::string path, absl::Status* first_error)
    : object_(object), path_(std::move(path)), first_error_(first_error) {
  if (object_ != nullptr && object_->is_null()) {
    object_ = nullptr;
  }
  if (object_ != nullptr && !object_->is_object()) {
    if (first_error_->ok()) {
      *first_error_ = absl::InvalidArgumentError(fmt::format("{}: must be an object", path_));
    }
    object_ = nullptr;
  }
}

const json* JsonFields::Find(std::string_view name) const {
  if (object_ == nullptr) {
    return nullptr;
  }
  auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::string JsonFields::Path(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

void JsonFields::Fail(std::string_view name, std::string_view problem) const {
  if (first_error_->ok()) {
    *first_error_ = absl::InvalidArgumentError(fmt::format("{}: {}", Path(name), problem));
  }
}

void JsonFields::WrongType(std::string_view name, const json& value,
                           std::string_view wanted) const {
  if (first_error_->ok()) {
    const std::string shown =
        value.is_structured() ? std::string("an ") + value.type_name() : DumpJson(value);
    Fail(name, fmt::format("must be {}, not {}", wanted, base::CutText(shown, 64)));
  }
}

std::optional<std::string> JsonFields::String(std::string_view name) const {
  const json* value = Find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_string()) {
    WrongType(name, *value, "a string");
    return std::nullopt;
  }
  return value->get_ref<const std::string&>();
}

std::optional<int64_t> JsonFields::Int(std::string_view name, int64_t min, int64_t max) const {
  const json* value = Find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  const bool too_large =
      value->is_number_unsigned() &&
      value->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!value->is_number_integer() || too_large || value->get<int64_t>() < min ||
      value->get<int64_t>() > max) {
    WrongType(name, *value, fmt::format("a whole number from {} to {}", min, max));
    return std::nullopt;
  }
  return value->get<int64_t>();
}

std::optional<double> JsonFields::Number(std::string_view name) const {
  const json* value = Find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  const double number = value->is_number() ? value->get<double>() : -1;
  if (!std::isfinite(number) || number < 0) {
    WrongType(name, *value, "a number of 0 or more");
    return std::nullopt;
  }
  return number;
}

std::optional<bool> JsonFields::Bool(std::string_view name) const {
  const json* value = Find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_boolean()) {
    WrongType(name, *value, "true or false");
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<absl::Time> JsonFields::Time(std::string_view name) const {
  const json* value = Find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  std::optional<absl::Time> time;
  if (value->is_string()) {
    time = ParseRfc3339(value->get_ref<const std::string&>());
  }
  if (!time.has_value()) {
    WrongType(name, *value, "a time such as 2026-01-31T12:00:00Z");
  }
  return time;
}

std::optional<size_t> JsonFields::OneOf(std::string_view name,
                                        std::span<const std::string_view> words) const {
  const json* value = Find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (value->is_string()) {
    const auto found = std::find(words.begin(), words.end(), value->get_ref<const std::string&>());
    if (found != words.end()) {
      return static_cast<size_t>(found - words.begin());
    }
  }
  WrongType(name, *value, fmt::format("one of {}", fmt::join(words, ", ")));
  return std::nullopt;
}

const json* JsonFields::List(std::string_view name, size_t max) const {
  const json* value = Find(name);
  if (value == nullptr) {
    return nullptr;
  }
  if (!value->is_array()) {
    WrongType(name, *value, "a list");
    return nullptr;
  }
  if (value->size() > max) {
    Fail(name, fmt::format("{} entries are more than {}", value->size(), max));
    return nullptr;
  }
  return value;
}

std::vector<std::string> JsonFields::Strings(std::string_view name, size_t max) const {
  std::vector<std::string> result;
  const json* list = List(name, max);
  if (list == nullptr) {
    return result;
  }
  result.reserve(list->size());
  for (const json& entry : *list) {
    if (!entry.is_string()) {
      WrongType(fmt::format("{}[{}]", name, result.size()), entry, "a string");
      return {};
    }
    result.push_back(entry.get<std::string>());
  }
  return result;
}

kube::StringPairs JsonFields::Pairs(std::string_view name) const {
  kube::StringPairs result;
  const JsonFields map = Object(name);
  if (map.object_ == nullptr) {
    return result;
  }
  for (const auto& [key, value] : map.object_->items()) {
    if (!value.is_string()) {
      map.WrongType(base::CutText(key, 64), value, "a string");
      return {};
    }
    result.emplace(key, value.get_ref<const std::string&>());
  }
  return result;
}

JsonFields JsonFields::Object(std::string_view name) const {
  return JsonFields(Find(name), Path(name), first_error_);
}

std::vector<JsonFields> JsonFields::Objects(std::string_view name, size_t max) const {
  std::vector<JsonFields> result;
  const json* list = List(name, max);
  if (list == nullptr) {
    return result;
  }
  result.reserve(list->size());
  for (const json& entry : *list) {
    const std::string path = fmt::format("{}[{}]", Path(name), result.size());
    if (entry.is_null()) {
      Fail(fmt::format("{}[{}]", name, result.size()), "must be an object, not null");
      return {};
    }
    result.emplace_back(&entry, path, first_error_);
  }
  return result;
}

kube::ObjectMeta ParseObjectMeta(const JsonFields& metadata) {
  kube::ObjectMeta meta;
  meta.namespace_name = metadata.String("namespace").value_or("");
  meta.name = metadata.String("name").value_or("");
  meta.uid = metadata.String("uid").value_or("");
  meta.resource_version = metadata.String("resourceVersion").value_or("");
  meta.generation = metadata.Int("generation", 0, std::numeric_limits<int64_t>::max()).value_or(0);
  meta.creation_time = metadata.Time("creationTimestamp").value_or(absl::InfinitePast());
  meta.deletion_time = metadata.Time("deletionTimestamp");
  meta.labels = metadata.Pairs("labels");
  meta.annotations = metadata.Pairs("annotations");
  for (const JsonFields& owner : metadata.Objects("ownerReferences", 1024)) {
    meta.owners.push_back({.api_version = owner.String("apiVersion").value_or(""),
                           .kind = owner.String("kind").value_or(""),
                           .name = owner.String("name").value_or(""),
                           .uid = owner.String("uid").value_or(""),
                           .controller = owner.Bool("controller").value_or(false)});
  }
  if (meta.name.empty()) {
    metadata.Fail("name", "missing");
  }
  return meta;
}

std::vector<kube::Condition> ParseConditions(const JsonFields& status) {
  std::vector<kube::Condition> conditions;
  for (const JsonFields& entry : status.Objects("conditions", kConditionsMax)) {
    kube::Condition& condition = conditions.emplace_back();
    condition.type = entry.String("type").value_or("");
    condition.status = entry.String("status").value_or("Unknown");
    condition.observed_generation =
        entry.Int("observedGeneration", 0, std::numeric_limits<int64_t>::max()).value_or(0);
    condition.last_transition_time =
        entry.Time("lastTransitionTime").value_or(absl::InfinitePast());
    condition.reason = entry.String("reason").value_or("");
    condition.message = entry.String("message").value_or("");
  }
  std::stable_sort(conditions.begin(), conditions.end(),
                   [](const auto& a, const auto& b) { return a.type < b.type; });
  return conditions;
}

const json& Member(const json& object, std::string_view key) {
  static const json& absent = *new json();
  if (!object.is_object()) {
    return absent;
  }
  const auto found = object.find(key);
  return found == object.end() ? absent : *found;
}

std::string DumpJson(const json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
}

json ApplyHead(std::string_view kind, const kube::ObjectMeta& meta) {
  return {
      {"apiVersion", "asterism.dev/v1alpha1"}, {"kind", kind}, {"metadata", {{"name", meta.name}}}};
}

json ConditionsJson(std::vector<kube::Condition> conditions) {
  std::stable_sort(conditions.begin(), conditions.end(),
                   [](const auto& a, const auto& b) { return a.type < b.type; });
  json list = json::array();
  for (const kube::Condition& condition : conditions) {
    json& entry = list.emplace_back(
        json{{"type", condition.type},
             {"status", condition.status},
             {"lastTransitionTime", FormatSeconds(condition.last_transition_time)},
             {"reason", condition.reason},
             {"message", base::CutText(condition.message, kConditionMessageBytesMax)}});
    if (condition.observed_generation != 0) {
      entry["observedGeneration"] = condition.observed_generation;
    }
  }
  return list;
}

std::string FormatSeconds(absl::Time time) {
  return FormatUtc("%E4Y-%m-%dT%H:%M:%SZ", time);
}

std::string FormatMicroseconds(absl::Time time) {
  return FormatUtc("%E4Y-%m-%dT%H:%M:%E6SZ", time);
}

}  // namespace asterism::operators
