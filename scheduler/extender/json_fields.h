// File: scheduler/extender/json_fields.h
//
// Forward-only reading of JSON objects with simdjson on-demand: fields are visited in the order of
// the text, whatever that is, and what nobody asks for is skipped without being parsed. Null reads
// as absent everywhere, as in Go. Inside scheduler/extender/ only.
//
//   RETURN_IF_ERROR(ForEachField(value, "Pod", [&](std::string_view key, ondemand::value& field) {
//     return key == "metadata" ? ReadMetadata(field) : absl::OkStatus();
//   }));
//
// Errors name the field: "Pod.metadata is not an object". Texts live in the parser until its next
// document.
//
// Thread-safety: none. Cost: one pass.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "simdjson.h"

namespace asterism::scheduler::extender {

namespace ondemand = simdjson::ondemand;

// The text is not JSON at this place.
absl::Status BadJson(std::string_view path, simdjson::error_code error);
absl::Status WrongType(std::string_view path, std::string_view wanted);

// Keys of Go structs without tags match in any case.
bool SameKey(std::string_view key, std::string_view name);

// Absent (nullopt) when null. A value that is neither null nor a string is an error.
absl::Status ReadText(ondemand::value& value, std::string_view path,
                      std::optional<std::string_view>& text);

template <typename Visit>
absl::Status ForEachField(ondemand::object& object, std::string_view path, Visit visit) {
  for (auto member : object) {
    ondemand::field field;
    if (const simdjson::error_code error = std::move(member).get(field)) {
      return BadJson(path, error);
    }
    std::string_view key;
    if (const simdjson::error_code error = field.unescaped_key().get(key)) {
      return BadJson(path, error);
    }
    if (absl::Status status = visit(key, field.value()); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

template <typename Visit>
absl::Status ForEachField(ondemand::value& value, std::string_view path, Visit visit) {
  bool null = false;
  if (const simdjson::error_code error = value.is_null().get(null)) {
    return BadJson(path, error);
  }
  if (null) {
    return absl::OkStatus();
  }
  ondemand::object object;
  if (const simdjson::error_code error = value.get_object().get(object)) {
    return error == simdjson::INCORRECT_TYPE ? WrongType(path, "an object") : BadJson(path, error);
  }
  return ForEachField(object, path, visit);
}

template <typename Visit>
absl::Status ForEachElement(ondemand::value& value, std::string_view path, bool& present,
                            Visit visit) {
  bool null = false;
  if (const simdjson::error_code error = value.is_null().get(null)) {
    return BadJson(path, error);
  }
  present = !null;
  if (null) {
    return absl::OkStatus();
  }
  ondemand::array array;
  if (const simdjson::error_code error = value.get_array().get(array)) {
    return error == simdjson::INCORRECT_TYPE ? WrongType(path, "an array") : BadJson(path, error);
  }
  for (auto member : array) {
    ondemand::value element;
    if (const simdjson::error_code error = std::move(member).get(element)) {
      return BadJson(path, error);
    }
    if (absl::Status status = visit(element); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace asterism::scheduler::extender
