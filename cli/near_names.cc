#include "cli/near_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "fmt/format.h"

namespace asterism::cli {
namespace {

constexpr size_t kKnownMax = 10'000;
constexpr size_t kLettersMax = 64;
constexpr size_t kNearMax = 3;

// Letters to insert, remove, replace, or swap with their neighbour.
size_t LetterDistance(std::string_view left, std::string_view right) {
  left = left.substr(0, kLettersMax);
  right = right.substr(0, kLettersMax);
  std::vector<size_t> before(right.size() + 1);  // the row of left without its last two letters
  std::vector<size_t> above(right.size() + 1);
  std::vector<size_t> row(right.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= left.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= right.size(); ++j) {
      const size_t replaced = above[j - 1] + (left[i - 1] == right[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> NearNames(std::string_view name, const std::vector<std::string>& known) {
  const size_t limit = std::max<size_t>(1, name.size() / 3);
  std::vector<std::pair<size_t, std::string>> near;
  for (size_t i = 0; i < known.size() && i < kKnownMax; ++i) {
    const bool head = name.size() >= 3 && known[i].starts_with(name);
    const size_t distance = head ? 1 : LetterDistance(name, known[i]);
    if (distance <= limit) {
      near.emplace_back(distance, known[i]);
    }
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < near.size() && i < kNearMax; ++i) {
    names.push_back(std::move(near[i].second));
  }
  return names;
}

std::string DidYouMean(std::string_view name, const std::vector<std::string>& known) {
  std::vector<std::string> quoted;
  for (const std::string& near : NearNames(name, known)) {
    quoted.push_back(fmt::format("\"{}\"", near));
  }
  return quoted.empty() ? "" : fmt::format(": did you mean {}?", fmt::join(quoted, " or "));
}

}  // namespace asterism::cli
