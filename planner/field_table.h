// File: planner/field_table.h
//
// A flat document as named values: the top level of a JSON object, or `key: value` lines of a short
// YAML. It exists so that the planner reads a model without an I/O library; nested JSON values are
// checked for their form, and kept as kNested without their content.
//
//   ASSIGN_OR_RETURN(const FieldTable fields, ParseJsonFields(text));
//   ASSIGN_OR_RETURN(const int64_t layers, fields.Whole("num_hidden_layers"));
//
// Bounds: kFieldBytesMax bytes, kFieldsMax fields, JSON nested kFieldDepthMax deep; beyond it is an
// error. A key twice is an error. Errors name line or byte, what was met and the way out.
//
// Thread-safety: values; reading is pure. Cost: one pass; a look-up is linear in the fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace asterism::planner {

inline constexpr size_t kFieldBytesMax = size_t{1} << 20;
inline constexpr size_t kFieldsMax = 1000;
inline constexpr int kFieldDepthMax = 32;

struct Field {
  enum class Kind { kNull, kBoolean, kNumber, kText, kNested };

  std::string key;
  Kind kind = Kind::kNull;
  std::string text;  // number as written, text unescaped, "true" or "false"
};

class FieldTable {
 public:
  explicit FieldTable(std::vector<Field> fields) : fields_(std::move(fields)) {}

  const std::vector<Field>& fields() const { return fields_; }
  // Null when the key is absent or its value is null.
  const Field* Find(std::string_view key) const;

  // Whole numbers; "4096.0" is one. The error names key, value and what to write.
  absl::StatusOr<int64_t> Whole(std::string_view key) const;
  absl::StatusOr<int64_t> WholeOr(std::string_view key, int64_t fallback) const;
  absl::StatusOr<double> NumberOr(std::string_view key, double fallback) const;
  absl::StatusOr<bool> BooleanOr(std::string_view key, bool fallback) const;
  absl::StatusOr<std::string> TextOr(std::string_view key, std::string_view fallback) const;

 private:
  std::vector<Field> fields_;
};

absl::StatusOr<FieldTable> ParseJsonFields(std::string_view text);
absl::StatusOr<FieldTable> ParseYamlFields(std::string_view text);

}  // namespace asterism::planner
