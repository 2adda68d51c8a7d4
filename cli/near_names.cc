#include "cli/near_names.h"

#include <algorithm>
#include <utility>

#include "base/edit_distance.h"
#include "fmt/format.h"

namespace asterism::cli {
namespace {

constexpr size_t kKnownMax = 10'000;
constexpr size_t kNearMax = 3;

}  // namespace

std::vector<std::string> NearNames(std::string_view name, const std::vector<std::string>& known) {
  const size_t limit = std::max<size_t>(1, name.size() / 3);
  std::vector<std::pair<size_t, std::string>> near;
  for (size_t i = 0; i < known.size() && i < kKnownMax; ++i) {
    const bool head = name.size() >= 3 && known[i].starts_with(name);
    const size_t distance =
        head ? 1 : base::EditDistance(name, known[i], base::LetterSwap::kOneStep);
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
