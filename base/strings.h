// File: base/strings.h
//
// Bridges std::string_view and absl::string_view. Debian's Abseil is built with its own
// string_view, so the two do not convert into each other; interfaces here use the std types and
// convert with ToAbsl / ToStd where an Abseil function is called.
//
//   absl::Status status(code, ToAbsl(message));
//   StringMap<int> by_name;  by_name.find(std::string_view("a"));   // no temporary std::string
//
// Thread-safety: pure functions. Cost: none.
#pragma once

#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"

namespace asterism::base {

inline absl::string_view ToAbsl(std::string_view text) {
  return absl::string_view(text.data(), text.size());
}
inline std::string_view ToStd(absl::string_view text) {
  return std::string_view(text.data(), text.size());
}

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return absl::Hash<std::string_view>{}(text); }
};
struct StringEqual {
  using is_transparent = void;
  bool operator()(std::string_view left, std::string_view right) const { return left == right; }
};

// A hash map keyed by std::string that can be asked with a std::string_view.
template <typename Value>
using StringMap = absl::flat_hash_map<std::string, Value, StringHash, StringEqual>;

}  // namespace asterism::base
