// File: planner/word_table.h
//
// The words of an option that has a few: enum value to word and back.
//
//   constexpr Worded<Fp8Recipe> kRecipes[] = {{Fp8Recipe::kDelayed, "delayed"}, ...};
//   WordOf(kRecipes, recipe)
//   ASSIGN_OR_RETURN(recipe, FromWord(kRecipes, "fp8-recipe", text));
//
// Thread-safety: pure. Cost: O(words).
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "fmt/format.h"

namespace asterism::planner {

template <typename Value>
struct Worded {
  Value value;
  std::string_view word;
};

// Empty when the table has no such value.
template <typename Value, size_t kCount>
std::string_view WordOf(const Worded<Value> (&words)[kCount], Value value) {
  for (const Worded<Value>& each : words) {
    if (each.value == value) {
      return each.word;
    }
  }
  return "";
}

template <typename Value, size_t kCount>
absl::StatusOr<Value> FromWord(const Worded<Value> (&words)[kCount], std::string_view option,
                               std::string_view word) {
  std::string known;
  for (const Worded<Value>& each : words) {
    if (each.word == word) {
      return each.value;
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", each.word);
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: \"{}\" is not known: use one of {}", option, word.substr(0, 64), known));
}

}  // namespace asterism::planner
