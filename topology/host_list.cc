#include "topology/host_list.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "base/cut_text.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace asterism::topology {
namespace {

constexpr size_t kBracketsMax = 4;
constexpr size_t kDigitsMax = 9;

absl::Status BadHostList(std::string_view text, std::string_view why) {
  return absl::InvalidArgumentError(
      fmt::format("host list \"{}\": {}", base::CutText(text, 60), why));
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.size() <= kDigitsMax &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

uint64_t ValueOf(std::string_view digits) {
  uint64_t value = 0;
  for (const char digit : digits) {
    value = value * 10 + static_cast<uint64_t>(digit - '0');
  }
  return value;
}

// "001-012,90" into the texts it stands for.
absl::Status ExpandRanges(std::string_view whole, std::string_view ranges, size_t names_max,
                          std::vector<std::string>& parts) {
  while (true) {
    const size_t comma = ranges.find(',');
    const std::string_view range = ranges.substr(0, comma);
    const size_t dash = range.find('-');
    const std::string_view first = range.substr(0, dash);
    const std::string_view last = dash == std::string_view::npos ? first : range.substr(dash + 1);
    if (!IsNumber(first) || !IsNumber(last)) {
      return BadHostList(whole, "a range must be numbers, as in [1-4,7]");
    }
    const uint64_t begin = ValueOf(first);
    const uint64_t end = ValueOf(last);
    if (begin > end) {
      return BadHostList(whole, fmt::format("the range {} runs backwards", range));
    }
    if (end - begin >= names_max - std::min(names_max, parts.size())) {
      return BadHostList(whole, fmt::format("it stands for more than {} names", names_max));
    }
    for (uint64_t value = begin; value <= end; ++value) {
      parts.push_back(fmt::format("{:0{}}", value, first.size()));
    }
    if (comma == std::string_view::npos) {
      return absl::OkStatus();
    }
    ranges.remove_prefix(comma + 1);
  }
}

absl::Status ExpandOne(std::string_view whole, std::string_view item, size_t names_max,
                       std::vector<std::string>& names) {
  std::vector<std::string> built = {""};
  size_t brackets = 0;
  while (!item.empty()) {
    const size_t open = item.find('[');
    const std::string_view fixed = item.substr(0, open);
    if (fixed.find(']') != std::string_view::npos) {
      return BadHostList(whole, "a ] without its [");
    }
    for (std::string& each : built) {
      each += fixed;
    }
    if (open == std::string_view::npos) {
      break;
    }
    const size_t close = item.find(']', open);
    if (close == std::string_view::npos) {
      return BadHostList(whole, "a [ is not closed");
    }
    if (++brackets > kBracketsMax) {
      return BadHostList(whole, fmt::format("more than {} brackets in one name", kBracketsMax));
    }
    std::vector<std::string> parts;
    RETURN_IF_ERROR(ExpandRanges(whole, item.substr(open + 1, close - open - 1), names_max, parts));
    if (parts.size() * built.size() > names_max) {
      return BadHostList(whole, fmt::format("it stands for more than {} names", names_max));
    }
    std::vector<std::string> longer;
    longer.reserve(parts.size() * built.size());
    for (const std::string& each : built) {
      for (const std::string& part : parts) {
        longer.push_back(each + part);
      }
    }
    built = std::move(longer);
    item.remove_prefix(close + 1);
  }
  if (names.size() + built.size() > names_max) {
    return BadHostList(whole, fmt::format("it stands for more than {} names", names_max));
  }
  names.insert(names.end(), std::make_move_iterator(built.begin()),
               std::make_move_iterator(built.end()));
  return absl::OkStatus();
}

struct NumberedName {
  std::string_view stem;
  std::string_view digits;
};

NumberedName SplitNumber(std::string_view name) {
  size_t begin = name.size();
  while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9' &&
         name.size() - begin < kDigitsMax) {
    --begin;
  }
  return {name.substr(0, begin), name.substr(begin)};
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandHostList(std::string_view text, size_t names_max) {
  std::vector<std::string> names;
  size_t begin = 0;
  int depth = 0;
  for (size_t at = 0; at <= text.size(); ++at) {
    const bool end = at == text.size() || (text[at] == ',' && depth == 0);
    if (!end) {
      depth += text[at] == '[' ? 1 : text[at] == ']' ? -1 : 0;
      continue;
    }
    const std::string_view item = text.substr(begin, at - begin);
    if (!item.empty()) {
      RETURN_IF_ERROR(ExpandOne(text, item, names_max, names));
    }
    begin = at + 1;
  }
  return names;
}

std::string CompressHostList(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size();) {
    const NumberedName first = SplitNumber(names[i]);
    size_t end = i + 1;
    std::string ranges;
    size_t run = i;  // begin of the present run
    const auto close_run = [&](size_t last) {
      const std::string_view from = SplitNumber(names[run]).digits;
      ranges += (ranges.empty() ? "" : ",") + std::string(from);
      if (last > run) {
        ranges += "-" + std::string(SplitNumber(names[last]).digits);
      }
    };
    while (end < names.size() && !first.digits.empty()) {
      const NumberedName next = SplitNumber(names[end]);
      if (next.stem != first.stem || next.digits.size() != first.digits.size()) {
        break;
      }
      if (ValueOf(next.digits) != ValueOf(SplitNumber(names[end - 1]).digits) + 1) {
        close_run(end - 1);
        run = end;
      }
      ++end;
    }
    text += text.empty() ? "" : ",";
    if (end == i + 1) {
      text += names[i];
    } else {
      close_run(end - 1);
      text += fmt::format("{}[{}]", first.stem, ranges);
    }
    i = end;
  }
  return text;
}

}  // namespace asterism::topology
