#include "controller/label_selector.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "controller/kubernetes_names.h"
#include "fmt/format.h"

namespace asterism::controller {
namespace {

using operators::NodeRequirement;

bool IsSelectorSpace(char letter) {
  return letter == ' ' || letter == '\t';
}
bool IsSelectorSymbol(char letter) {
  return std::string_view("!=,()<>").find(letter) != std::string_view::npos;
}

// Words and symbols of the text, one after another.
class SelectorReader {
 public:
  explicit SelectorReader(std::string_view text) : text_(text) { SkipSpace(); }

  bool AtEnd() const { return position_ == text_.size(); }
  bool Take(std::string_view symbol) {
    if (!text_.substr(position_).starts_with(symbol)) {
      return false;
    }
    position_ += symbol.size();
    SkipSpace();
    return true;
  }
  // May be empty.
  std::string_view TakeWord() {
    const size_t begin = position_;
    while (!AtEnd() && !IsSelectorSpace(text_[position_]) && !IsSelectorSymbol(text_[position_])) {
      ++position_;
    }
    const std::string_view word = text_.substr(begin, position_ - begin);
    SkipSpace();
    return word;
  }
  absl::Status Expected(std::string_view what) const {
    const std::string_view rest = text_.substr(position_, 20);
    return absl::InvalidArgumentError(
        fmt::format("expected {} at {}", what,
                    rest.empty() ? std::string("the end") : fmt::format("\"{}\"", rest)));
  }

 private:
  void SkipSpace() {
    while (!AtEnd() && IsSelectorSpace(text_[position_])) {
      ++position_;
    }
  }

  std::string_view text_;
  size_t position_ = 0;
};

absl::StatusOr<std::string> ReadSelectorKey(SelectorReader& reader) {
  const absl::Status expected = reader.Expected("a label key");
  const std::string_view key = reader.TakeWord();
  if (!IsLabelKey(key)) {
    return expected;
  }
  return std::string(key);
}

absl::StatusOr<std::string> ReadSelectorValue(SelectorReader& reader) {
  const absl::Status expected = reader.Expected("a label value");
  const std::string_view value = reader.TakeWord();
  if (!IsLabelValue(value)) {
    return expected;
  }
  return std::string(value);
}

absl::StatusOr<std::string> ReadSelectorNumber(SelectorReader& reader) {
  const absl::Status expected = reader.Expected("a whole number");
  const std::string_view number = reader.TakeWord();
  const bool digits = std::all_of(number.begin(), number.end(),
                                  [](char letter) { return letter >= '0' && letter <= '9'; });
  if (number.empty() || number.size() > 18 || !digits) {
    return expected;
  }
  return std::string(number);
}

absl::StatusOr<std::vector<std::string>> ReadSelectorSet(SelectorReader& reader) {
  if (!reader.Take("(")) {
    return reader.Expected("\"(\"");
  }
  std::vector<std::string> values;
  do {
    ASSIGN_OR_RETURN(values.emplace_back(), ReadSelectorValue(reader));
  } while (reader.Take(","));
  if (!reader.Take(")")) {
    return reader.Expected("\",\" or \")\"");
  }
  return values;
}

absl::StatusOr<NodeRequirement> ReadSelectorRequirement(SelectorReader& reader) {
  NodeRequirement requirement;
  if (reader.Take("!")) {
    ASSIGN_OR_RETURN(requirement.key, ReadSelectorKey(reader));
    requirement.op = "DoesNotExist";
    return requirement;
  }
  ASSIGN_OR_RETURN(requirement.key, ReadSelectorKey(reader));
  static constexpr std::pair<std::string_view, const char*> kComparisons[] = {
      {"==", "In"}, {"=", "In"}, {"!=", "NotIn"}, {">", "Gt"}, {"<", "Lt"}};
  for (const auto& [symbol, op] : kComparisons) {
    if (reader.Take(symbol)) {
      requirement.op = op;
      const bool number = requirement.op == "Gt" || requirement.op == "Lt";
      ASSIGN_OR_RETURN(requirement.values.emplace_back(),
                       number ? ReadSelectorNumber(reader) : ReadSelectorValue(reader));
      return requirement;
    }
  }
  const absl::Status expected = reader.Expected("\",\", a comparison, \"in\" or \"notin\"");
  const std::string_view word = reader.TakeWord();
  if (word.empty()) {
    requirement.op = "Exists";
  } else if (word == "in" || word == "notin") {
    requirement.op = word == "in" ? "In" : "NotIn";
    ASSIGN_OR_RETURN(requirement.values, ReadSelectorSet(reader));
  } else {
    return expected;
  }
  return requirement;
}

}  // namespace

absl::StatusOr<std::vector<NodeRequirement>> ParseLabelSelector(std::string_view text) {
  if (text.size() > kSelectorBytesMax) {
    return absl::InvalidArgumentError(fmt::format("longer than {} bytes", kSelectorBytesMax));
  }
  std::vector<NodeRequirement> requirements;
  SelectorReader reader(text);
  if (reader.AtEnd()) {
    return requirements;
  }
  do {
    ASSIGN_OR_RETURN(requirements.emplace_back(), ReadSelectorRequirement(reader));
  } while (reader.Take(","));
  if (!reader.AtEnd()) {
    return reader.Expected("\",\"");
  }
  return requirements;
}

}  // namespace asterism::controller
