#include "controller/object_names.h"

#include <algorithm>
#include <cstddef>

#include "fmt/format.h"

namespace asterism::controller {
namespace {

constexpr size_t kObjectNameMax = 253;
constexpr size_t kNamespaceNameMax = 63;

bool IsLowerOrDigit(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9');
}

bool IsNameLabel(std::string_view label) {
  return !label.empty() && IsLowerOrDigit(label.front()) && IsLowerOrDigit(label.back()) &&
         std::all_of(label.begin(), label.end(),
                     [](char letter) { return IsLowerOrDigit(letter) || letter == '-'; });
}

bool AreNameLabels(std::string_view name) {
  for (;;) {
    const size_t dot = name.find('.');
    if (!IsNameLabel(name.substr(0, dot))) {
      return false;
    }
    if (dot == std::string_view::npos) {
      return true;
    }
    name.remove_prefix(dot + 1);
  }
}

absl::Status CheckLength(std::string_view field, std::string_view name, size_t limit) {
  if (name.empty()) {
    return absl::InvalidArgumentError(fmt::format("{}: is missing: give the name", field));
  }
  if (name.size() > limit) {
    return absl::InvalidArgumentError(
        fmt::format("{}: has {} characters: a name has at most {}", field, name.size(), limit));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckObjectName(std::string_view field, std::string_view name) {
  absl::Status status = CheckLength(field, name, kObjectNameMax);
  if (status.ok() && !AreNameLabels(name)) {
    status = absl::InvalidArgumentError(
        fmt::format("{}: is not a name: use lower-case letters, digits, '-' and '.', with a letter "
                    "or digit at both ends",
                    field));
  }
  return status;
}

absl::Status CheckNamespaceName(std::string_view field, std::string_view name) {
  absl::Status status = CheckLength(field, name, kNamespaceNameMax);
  if (status.ok() && !IsNameLabel(name)) {
    status = absl::InvalidArgumentError(
        fmt::format("{}: is not the name of a namespace: use lower-case letters, digits and '-', "
                    "with a letter or digit at both ends",
                    field));
  }
  return status;
}

}  // namespace asterism::controller
