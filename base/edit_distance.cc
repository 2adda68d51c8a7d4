#include "base/edit_distance.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace asterism::base {

size_t EditDistance(std::string_view left, std::string_view right, LetterSwap swap) {
  constexpr size_t kLettersMax = 64;
  left = left.substr(0, kLettersMax);
  right = right.substr(0, kLettersMax);
  // row[j]: from the letters of `left` seen so far to the first j letters of `right`; then the rows
  // of one and of two letters before.
  using Row = std::array<size_t, kLettersMax + 1>;
  Row row{};
  Row above{};
  Row before{};
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= left.size(); ++i) {
    before = above;
    above = row;
    row[0] = i;
    for (size_t j = 1; j <= right.size(); ++j) {
      const size_t replaced = above[j - 1] + (left[i - 1] == right[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped =
          i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
      if (swapped && swap == LetterSwap::kOneStep) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[right.size()];
}

}  // namespace asterism::base
