#include "operator/node_ranges.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"

namespace asterism::operators {
namespace {

constexpr size_t kDigitsMax = 18;  // fits in int64_t

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.size() <= kDigitsMax &&
         std::all_of(text.begin(), text.end(), IsDigit);
}

int64_t ToNumber(std::string_view digits) {
  int64_t value = 0;
  for (const char c : digits) {
    value = value * 10 + (c - '0');
  }
  return value;
}

// One name that stands `count` times in a row.
struct Repeated {
  std::string_view name;
  size_t count = 1;
};

std::vector<Repeated> CountRepeats(const std::vector<std::string>& names) {
  std::vector<Repeated> result;
  for (const std::string& name : names) {
    if (!result.empty() && result.back().name == name) {
      ++result.back().count;
    } else {
      result.push_back({name, 1});
    }
  }
  return result;
}

// What is equal in names that differ in one number.
struct Frame {
  std::string_view prefix;
  std::string_view suffix;

  std::optional<std::string_view> NumberOf(std::string_view name) const {
    if (name.size() <= prefix.size() + suffix.size() || !name.starts_with(prefix) ||
        !name.ends_with(suffix)) {
      return std::nullopt;
    }
    const std::string_view number =
        name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
    return IsNumber(number) ? std::optional(number) : std::nullopt;
  }
};

// The frame of two different names: the number is the run of digits where they first differ.
std::optional<Frame> FrameOf(std::string_view left, std::string_view right) {
  size_t start = 0;
  while (start < left.size() && start < right.size() && left[start] == right[start]) {
    ++start;
  }
  while (start > 0 && IsDigit(left[start - 1])) {
    --start;
  }
  size_t end = start;
  while (end < left.size() && IsDigit(left[end])) {
    ++end;
  }
  const Frame frame{left.substr(0, start), left.substr(end)};
  if (frame.NumberOf(left).has_value() && frame.NumberOf(right).has_value()) {
    return frame;
  }
  return std::nullopt;
}

void AppendEscaped(std::string_view text, std::string& out) {
  for (const char c : text) {
    if (c == ',' || c == '[' || c == ']' || c == '*' || c == '\\') {
      out.push_back('\\');
    }
    out.push_back(c);
  }
}

void AppendCount(size_t count, std::string& out) {
  if (count > 1) {
    out.append(fmt::format("*{}", count));
  }
}

// Appends "prefix[0000-0003,0007]suffix" for the names from `first` that share the frame; returns
// the index after them.
size_t AppendFramed(const std::vector<Repeated>& names, size_t first, const Frame& frame,
                    std::string& out) {
  AppendEscaped(frame.prefix, out);
  out.push_back('[');
  size_t i = first;
  while (i < names.size()) {
    const std::optional<std::string_view> low = frame.NumberOf(names[i].name);
    if (!low.has_value()) {
      break;
    }
    if (i > first) {
      out.push_back(',');
    }
    std::string_view high = *low;
    size_t next = i + 1;
    for (; next < names.size() && names[next].count == names[i].count; ++next) {
      const std::optional<std::string_view> number = frame.NumberOf(names[next].name);
      if (!number.has_value() || number->size() != low->size() ||
          ToNumber(*number) != ToNumber(high) + 1) {
        break;
      }
      high = *number;
    }
    out.append(*low);
    if (next > i + 1) {
      out.append("-").append(high);
    }
    AppendCount(names[i].count, out);
    i = next;
  }
  out.push_back(']');
  AppendEscaped(frame.suffix, out);
  return i;
}

// Reads the texts that FormatNodeRanges writes.
class RangeReader {
 public:
  RangeReader(std::string_view text, size_t limit) : text_(text), limit_(limit) {}

  absl::StatusOr<std::vector<std::string>> Read() {
    if (text_.empty()) {
      return std::move(names_);
    }
    do {
      RETURN_IF_ERROR(ReadItem());
    } while (Take(','));
    if (at_ != text_.size()) {
      return Error("expected a comma");
    }
    return std::move(names_);
  }

 private:
  struct Range {
    std::string_view low;
    std::string_view high;
    size_t count = 1;
  };

  absl::Status Error(std::string_view problem) const {
    return absl::InvalidArgumentError(fmt::format("node ranges: {} at character {}", problem, at_));
  }

  bool Take(char c) {
    if (at_ < text_.size() && text_[at_] == c) {
      ++at_;
      return true;
    }
    return false;
  }

  absl::Status ReadItem() {
    if (text_.substr(at_).starts_with("\\e")) {
      at_ += 2;
      ASSIGN_OR_RETURN(const size_t count, ReadCount());
      return Add("", count);
    }
    ASSIGN_OR_RETURN(const std::string prefix, ReadLiteral());
    if (!Take('[')) {
      if (prefix.empty()) {
        return Error("expected a name");
      }
      ASSIGN_OR_RETURN(const size_t count, ReadCount());
      return Add(prefix, count);
    }
    std::vector<Range> ranges;
    do {
      ASSIGN_OR_RETURN(const Range range, ReadRange());
      ranges.push_back(range);
    } while (Take(','));
    if (!Take(']')) {
      return Error("expected ]");
    }
    ASSIGN_OR_RETURN(const std::string suffix, ReadLiteral());
    for (const Range& range : ranges) {
      RETURN_IF_ERROR(AddRange(prefix, range, suffix));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ReadLiteral() {
    std::string literal;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == ',' || c == '[' || c == ']' || c == '*') {
        break;
      }
      if (c == '\\') {
        ++at_;
        if (at_ == text_.size() ||
            std::string_view(",[]*\\").find(text_[at_]) == std::string_view::npos) {
          return Error("a backslash before nothing that needs one");
        }
      }
      literal.push_back(text_[at_]);
      if (literal.size() > kNodeNameBytesMax) {
        return Error("a name longer than 253 bytes");
      }
    }
    return literal;
  }

  absl::StatusOr<std::string_view> ReadDigits() {
    const size_t start = at_;
    while (at_ < text_.size() && IsDigit(text_[at_])) {
      ++at_;
    }
    const std::string_view digits = text_.substr(start, at_ - start);
    if (!IsNumber(digits)) {
      return Error("expected a number of at most 18 digits");
    }
    return digits;
  }

  absl::StatusOr<Range> ReadRange() {
    Range range;
    ASSIGN_OR_RETURN(range.low, ReadDigits());
    range.high = range.low;
    if (Take('-')) {
      ASSIGN_OR_RETURN(range.high, ReadDigits());
      if (range.high.size() != range.low.size() || range.high < range.low) {
        return Error("a range must rise, with numbers of one width");
      }
    }
    ASSIGN_OR_RETURN(range.count, ReadCount());
    return range;
  }

  // "*n", or 1 when there is none.
  absl::StatusOr<size_t> ReadCount() {
    if (!Take('*')) {
      return size_t{1};
    }
    ASSIGN_OR_RETURN(const std::string_view digits, ReadDigits());
    const int64_t count = ToNumber(digits);
    if (count < 1) {
      return Error("a name cannot stand 0 times");
    }
    return static_cast<size_t>(count);
  }

  absl::Status Add(const std::string& name, size_t count) {
    if (name.size() > kNodeNameBytesMax) {
      return Error("a name longer than 253 bytes");
    }
    if (count > limit_ - names_.size()) {
      return Error(fmt::format("more than {} names", limit_));
    }
    names_.insert(names_.end(), count, name);
    return absl::OkStatus();
  }

  absl::Status AddRange(const std::string& prefix, const Range& range, const std::string& suffix) {
    const size_t width = range.low.size();
    const int64_t high = ToNumber(range.high);
    for (int64_t number = ToNumber(range.low); number <= high; ++number) {
      RETURN_IF_ERROR(Add(fmt::format("{}{:0{}}{}", prefix, number, width, suffix), range.count));
    }
    return absl::OkStatus();
  }

  std::string_view text_;
  size_t limit_;
  size_t at_ = 0;
  std::vector<std::string> names_;
};

}  // namespace

std::string FormatNodeRanges(const std::vector<std::string>& names) {
  const std::vector<Repeated> repeated = CountRepeats(names);
  std::string out;
  for (size_t i = 0; i < repeated.size();) {
    if (i > 0) {
      out.push_back(',');
    }
    std::optional<Frame> frame;
    if (i + 1 < repeated.size()) {
      frame = FrameOf(repeated[i].name, repeated[i + 1].name);
    }
    if (frame.has_value()) {
      i = AppendFramed(repeated, i, *frame, out);
      continue;
    }
    if (repeated[i].name.empty()) {
      out.append("\\e");
    } else {
      AppendEscaped(repeated[i].name, out);
    }
    AppendCount(repeated[i].count, out);
    ++i;
  }
  return out;
}

absl::StatusOr<std::vector<std::string>> ParseNodeRanges(std::string_view text, size_t limit) {
  return RangeReader(text, limit).Read();
}

}  // namespace asterism::operators
