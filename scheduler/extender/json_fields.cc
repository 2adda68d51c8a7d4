#include "scheduler/extender/json_fields.h"

#include <utility>

#include "absl/strings/match.h"
#include "base/strings.h"

namespace asterism::scheduler::extender {

absl::Status BadJson(std::string_view path, simdjson::error_code error) {
  std::string message("not valid JSON at ");
  message += path;
  message += ": ";
  message += simdjson::error_message(error);
  return absl::InvalidArgumentError(std::move(message));
}

absl::Status WrongType(std::string_view path, std::string_view wanted) {
  std::string message(path);
  message += " is not ";
  message += wanted;
  return absl::InvalidArgumentError(std::move(message));
}

bool SameKey(std::string_view key, std::string_view name) {
  return absl::EqualsIgnoreCase(base::ToAbsl(key), base::ToAbsl(name));
}

absl::Status ReadText(ondemand::value& value, std::string_view path,
                      std::optional<std::string_view>& text) {
  text.reset();
  bool null = false;
  if (const simdjson::error_code error = value.is_null().get(null)) {
    return BadJson(path, error);
  }
  if (null) {
    return absl::OkStatus();
  }
  std::string_view found;
  if (const simdjson::error_code error = value.get_string().get(found)) {
    return error == simdjson::INCORRECT_TYPE ? WrongType(path, "a string") : BadJson(path, error);
  }
  text = found;
  return absl::OkStatus();
}

}  // namespace asterism::scheduler::extender
