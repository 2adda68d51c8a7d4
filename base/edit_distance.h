// File: base/edit_distance.h
//
// How far one name is from another in letters: the base of every "did you mean".
//
//   EditDistance("htps", "https", LetterSwap::kTwoSteps)      // 1
//   EditDistance("topolgoy", "topology", LetterSwap::kOneStep)  // 1
//
// Levenshtein's distance, or with kOneStep the optimal string alignment, in which two neighbours
// that changed places are one slip of the fingers.
//
// Thread-safety: pure. Cost: the product of the lengths; only the first 64 letters are looked at.
#pragma once

#include <cstddef>
#include <string_view>

namespace asterism::base {

enum class LetterSwap { kTwoSteps, kOneStep };

// How many letters must be inserted, removed, replaced (or swapped).
size_t EditDistance(std::string_view left, std::string_view right, LetterSwap swap);

}  // namespace asterism::base
