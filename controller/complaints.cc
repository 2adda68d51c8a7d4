#include "controller/complaints.h"

#include <algorithm>

#include "base/edit_distance.h"
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

size_t Distance(std::string_view left, std::string_view right) {
  return base::EditDistance(left, right, base::LetterSwap::kTwoSteps);
}

std::string_view NearestName(std::string_view name, const std::vector<std::string_view>& known) {
  return *std::min_element(known.begin(), known.end(), [&](auto left, auto right) {
    return Distance(name, left) < Distance(name, right);
  });
}

std::string Shown(std::string_view text) {
  constexpr size_t kShownMax = 60;
  return text.size() <= kShownMax ? QuoteYaml(text) : QuoteYaml(text.substr(0, kShownMax)) + "...";
}

}  // namespace asterism::controller
