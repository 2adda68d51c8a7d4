#include "planner/field_table.h"

#include <charconv>
#include <cmath>

#include "base/status_macros.h"
#include "fmt/format.h"

namespace asterism::planner {
namespace {

absl::Status WrongKind(const Field& field, std::string_view wanted) {
  return absl::InvalidArgumentError(fmt::format(
      "{}: {} is not {}", field.key,
      field.kind == Field::Kind::kNested ? "a nested value"
                                         : fmt::format("\"{}\"", field.text.substr(0, 64)),
      wanted));
}

}  // namespace

const Field* FieldTable::Find(std::string_view key) const {
  for (const Field& field : fields_) {
    if (field.key == key) {
      return field.kind == Field::Kind::kNull ? nullptr : &field;
    }
  }
  return nullptr;
}

absl::StatusOr<int64_t> FieldTable::Whole(std::string_view key) const {
  const Field* field = Find(key);
  if (field == nullptr) {
    return absl::InvalidArgumentError(fmt::format("{}: is missing: set it to a whole number", key));
  }
  const std::string& text = field->text;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // 2^53: beyond it a double does not hold every whole number.
  constexpr double kExactMax = 9007199254740992.0;
  if (field->kind != Field::Kind::kNumber || error != std::errc() ||
      end != text.data() + text.size() || value != std::floor(value) ||
      std::abs(value) > kExactMax) {
    return WrongKind(*field, "a whole number: write one without quotes");
  }
  return static_cast<int64_t>(value);
}

absl::StatusOr<int64_t> FieldTable::WholeOr(std::string_view key, int64_t fallback) const {
  if (Find(key) == nullptr) {
    return fallback;
  }
  return Whole(key);
}

absl::StatusOr<double> FieldTable::NumberOr(std::string_view key, double fallback) const {
  const Field* field = Find(key);
  if (field == nullptr) {
    return fallback;
  }
  const std::string& text = field->text;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (field->kind != Field::Kind::kNumber || error != std::errc() ||
      end != text.data() + text.size() || !std::isfinite(value)) {
    return WrongKind(*field, "a number: write one without quotes");
  }
  return value;
}

absl::StatusOr<bool> FieldTable::BooleanOr(std::string_view key, bool fallback) const {
  const Field* field = Find(key);
  if (field == nullptr) {
    return fallback;
  }
  if (field->kind != Field::Kind::kBoolean) {
    return WrongKind(*field, "true or false");
  }
  return field->text == "true";
}

absl::StatusOr<std::string> FieldTable::TextOr(std::string_view key,
                                               std::string_view fallback) const {
  const Field* field = Find(key);
  if (field == nullptr) {
    return std::string(fallback);
  }
  if (field->kind != Field::Kind::kText) {
    return WrongKind(*field, "a text");
  }
  return field->text;
}

}  // namespace asterism::planner
