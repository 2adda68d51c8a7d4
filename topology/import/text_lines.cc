#include "topology/import/text_lines.h"

#include "base/cut_text.h"

namespace asterism::topology {

std::vector<std::string_view> WordsOf(std::string_view line) {
  std::vector<std::string_view> words;
  size_t at = 0;
  while (at < line.size()) {
    while (at < line.size() && IsBlankChar(line[at])) {
      ++at;
    }
    const size_t begin = at;
    while (at < line.size() && !IsBlankChar(line[at])) {
      ++at;
    }
    if (at > begin) {
      words.push_back(line.substr(begin, at - begin));
    }
  }
  return words;
}

std::optional<uint64_t> DecimalOf(std::string_view text) {
  if (text.empty() || text.size() > 18) {
    return std::nullopt;
  }
  uint64_t value = 0;
  for (const char digit : text) {
    if (!IsDigitChar(digit)) {
      return std::nullopt;
    }
    value = value * 10 + static_cast<uint64_t>(digit - '0');
  }
  return value;
}

std::optional<uint64_t> HexOf(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
  }
  if (text.empty() || text.size() > 16) {
    return std::nullopt;
  }
  uint64_t value = 0;
  for (const char digit : text) {
    unsigned number = 0;
    if (IsDigitChar(digit)) {
      number = static_cast<unsigned>(digit - '0');
    } else if (digit >= 'a' && digit <= 'f') {
      number = static_cast<unsigned>(digit - 'a') + 10;
    } else if (digit >= 'A' && digit <= 'F') {
      number = static_cast<unsigned>(digit - 'A') + 10;
    } else {
      return std::nullopt;
    }
    value = value << 4 | number;
  }
  return value;
}

std::string WithoutEscapes(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  if (text.starts_with("\xef\xbb\xbf")) {
    text.remove_prefix(3);
  }
  for (size_t at = 0; at < text.size();) {
    const size_t bracket = text[at] == '\x1b' ? at + 1 : at;
    if (bracket < text.size() && text[bracket] == '[') {
      size_t end = bracket + 1;
      while (end < text.size() && (IsDigitChar(text[end]) || text[end] == ';')) {
        ++end;
      }
      const bool letter = end < text.size() && text[end] >= '@' && text[end] <= '~';
      // Some terminals' logs keep "[4m" without its ESC.
      const bool sequence = bracket > at ? letter : letter && text[end] == 'm' && end > bracket + 1;
      if (sequence) {
        at = end + 1;
        continue;
      }
    }
    if (text[at] != '\x1b') {
      clean.push_back(text[at]);
    }
    ++at;
  }
  return clean;
}

std::string Excerpt(std::string_view text) {
  return base::CutText(text, 60);
}

}  // namespace asterism::topology
