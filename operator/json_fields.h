// File: operator/json_fields.h
//
// Reads typed fields of a JSON object that somebody else wrote. A field that is absent or null is
// std::nullopt; a wrong type or a value out of range is recorded, with the path of the field, as
// the first error of the whole document, so that parsers read straight down and look once.
//
//   absl::Status error;
//   JsonFields spec = JsonFields(&object, "", &error).Object("spec");
//   int64_t gpus = spec.Int("gpus", 1, 1048576).value_or(0);
//   RETURN_IF_ERROR(error);
//
// For operator/ and cli/: the callers include nlohmann/json.hpp, their headers do not.
//
// Thread-safety: none; lives on the stack of a parser, shorter than the document and the status.
// Cost: a map look-up a field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kube/object.h"
#include "nlohmann/json_fwd.hpp"

namespace asterism::operators {

// The API server stores no larger object (etcd's request limit), and no sane one is deeper.
inline constexpr size_t kObjectBytesMax = 3 << 19;
inline constexpr int kObjectDepthMax = 64;

// One JSON object within the bounds above, without metadata.managedFields. `kind` names it in
// errors.
absl::StatusOr<nlohmann::json> ParseObjectText(std::string_view text, std::string_view kind);

class JsonFields {
 public:
  // A null `object` has no fields.
  JsonFields(const nlohmann::json* object, std::string path, absl::Status* first_error);

  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  // Null when absent or JSON null.
  const nlohmann::json* Find(std::string_view name) const;

  std::optional<std::string> String(std::string_view name) const;
  std::optional<int64_t> Int(std::string_view name, int64_t min, int64_t max) const;
  // Finite, and 0 or more.
  std::optional<double> Number(std::string_view name) const;
  std::optional<bool> Bool(std::string_view name) const;
  // RFC 3339; Go's zero time reads as absl::InfinitePast().
  std::optional<absl::Time> Time(std::string_view name) const;
  // The index of the value in `words`.
  std::optional<size_t> OneOf(std::string_view name, std::span<const std::string_view> words) const;
  std::vector<std::string> Strings(std::string_view name, size_t max) const;
  kube::StringPairs Pairs(std::string_view name) const;
  JsonFields Object(std::string_view name) const;
  std::vector<JsonFields> Objects(std::string_view name, size_t max) const;

  // "spec.gpus" for "gpus".
  std::string Path(std::string_view name) const;
  // Records "<path of name>: <problem>" unless there is an error already.
  void Fail(std::string_view name, std::string_view problem) const;
  bool failed() const { return !first_error_->ok(); }

 private:
  void WrongType(std::string_view name, const nlohmann::json& value, std::string_view wanted) const;
  const nlohmann::json* List(std::string_view name, size_t max) const;

  const nlohmann::json* object_;
  std::string path_;
  absl::Status* first_error_;
};

kube::ObjectMeta ParseObjectMeta(const JsonFields& metadata);
std::vector<kube::Condition> ParseConditions(const JsonFields& status);  // sorted by type

// Text of an apply body: any bytes are written as valid UTF-8.
std::string DumpJson(const nlohmann::json& value);

// The member of an object; null where there is none, or where `object` is no object.
const nlohmann::json& Member(const nlohmann::json& object, std::string_view key);
// {"apiVersion", "kind", "metadata": {name}}: the head of an apply on /status. No uid: the API
// server overwrites all metadata there before it compares anything but the resourceVersion.
nlohmann::json ApplyHead(std::string_view kind, const kube::ObjectMeta& meta);
// Sorted by type; messages cut to what the schema allows.
nlohmann::json ConditionsJson(std::vector<kube::Condition> conditions);

// metav1.Time and metav1.MicroTime. Infinite times become Go's zero time.
std::string FormatSeconds(absl::Time time);
std::string FormatMicroseconds(absl::Time time);

}  // namespace asterism::operators
