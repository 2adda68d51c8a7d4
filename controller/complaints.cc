#include "controller/complaints.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "controller/yaml_tree.h"
#include "fmt/format.h"

namespace asterism::controller {

void Complaints::Add(std::string_view field, std::string_view problem, std::string_view remedy) {
  if (lines_.size() >= kComplaintsMax) {
    ++left_out_;
    return;
  }
  lines_.push_back(fmt::format("{}: {}: {}", field, problem, remedy));
}

absl::Status Complaints::ToStatus() const {
  if (empty()) {
    return absl::OkStatus();
  }
  std::string message = fmt::format("{}", fmt::join(lines_, "\n"));
  if (left_out_ > 0) {
    message += fmt::format("\nand {} more", left_out_);
  }
  return absl::InvalidArgumentError(message);
}

size_t EditDistance(std::string_view left, std::string_view right) {
  constexpr size_t kLetters = 64;
  left = left.substr(0, kLetters);
  right = right.substr(0, kLetters);
  // distance[j]: from the letters of `left` seen so far to the first j letters of `right`.
  std::array<size_t, kLetters + 1> distance{};
  std::iota(distance.begin(), distance.end(), size_t{0});
  for (size_t i = 0; i < left.size(); ++i) {
    size_t diagonal = distance[0];
    distance[0] = i + 1;
    for (size_t j = 0; j < right.size(); ++j) {
      const size_t replaced = diagonal + (left[i] == right[j] ? 0 : 1);
      diagonal = distance[j + 1];
      distance[j + 1] = std::min({replaced, distance[j] + 1, diagonal + 1});
    }
  }
  return distance[right.size()];
}

std::string_view NearestName(std::string_view name, const std::vector<std::string_view>& known) {
  return *std::min_element(known.begin(), known.end(), [&](auto left, auto right) {
    return EditDistance(name, left) < EditDistance(name, right);
  });
}

std::string Shown(std::string_view text) {
  constexpr size_t kShownMax = 60;
  return text.size() <= kShownMax ? QuoteYaml(text) : QuoteYaml(text.substr(0, kShownMax)) + "...";
}

}  // namespace asterism::controller
