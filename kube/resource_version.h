// File: kube/resource_version.h
//
// Order of the resourceVersions of one kind: decimal numbers of any length. Versions of different
// kinds must not be compared. Rule: apimachinery pkg/util/resourceversion.
//
//   if (CompareResourceVersions(seen, wanted).value_or(std::strong_ordering::less) >= 0) ...
//
// Thread-safety: pure. Cost: one text comparison.
#pragma once

#include <algorithm>
#include <compare>
#include <optional>
#include <string_view>

namespace asterism::kube {

// Digits only, no leading zero, and so not "0".
inline bool IsResourceVersion(std::string_view text) {
  return !text.empty() && text.front() != '0' &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Nothing when one of them is no resourceVersion.
inline std::optional<std::strong_ordering> CompareResourceVersions(std::string_view left,
                                                                   std::string_view right) {
  if (!IsResourceVersion(left) || !IsResourceVersion(right)) {
    return std::nullopt;
  }
  if (left.size() != right.size()) {
    return left.size() <=> right.size();
  }
  return left.compare(right) <=> 0;
}

}  // namespace asterism::kube
