// File: topology/import/text_lines.h
//
// Walks the lines of a text, with numbers, and the words of a line. A line may end in CR LF.
//
//   TextLines lines(text);
//   while (lines.Next()) Use(lines.number(), lines.line());
//
// Thread-safety: none. Cost: one pass, no copy. Lines over kLineBytesMax are cut, and `cut` says
// so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace asterism::topology {

inline constexpr size_t kLineBytesMax = size_t{1} << 16;

class TextLines {
 public:
  explicit TextLines(std::string_view text) : rest_(text) {}

  bool Next() {
    if (rest_.empty()) {
      return false;
    }
    ++number_;
    const void* end = std::memchr(rest_.data(), '\n', rest_.size());
    const size_t length = end == nullptr
                              ? rest_.size()
                              : static_cast<size_t>(static_cast<const char*>(end) - rest_.data());
    line_ = rest_.substr(0, length);
    rest_.remove_prefix(end == nullptr ? length : length + 1);
    complete_ = end != nullptr;
    cut_ = line_.size() > kLineBytesMax;
    if (cut_) {
      line_ = line_.substr(0, kLineBytesMax);
    }
    if (!line_.empty() && line_.back() == '\r') {
      line_.remove_suffix(1);
    }
    return true;
  }

  std::string_view line() const { return line_; }
  uint32_t number() const { return number_; }
  bool cut() const { return cut_; }
  bool complete() const { return complete_; }  // it ended with a newline

 private:
  std::string_view rest_;
  std::string_view line_;
  uint32_t number_ = 0;
  bool cut_ = false;
  bool complete_ = false;
};

inline bool IsBlankChar(char letter) {
  return letter == ' ' || letter == '\t';
}
inline bool IsDigitChar(char letter) {
  return letter >= '0' && letter <= '9';
}

inline std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (IsBlankChar(text.front()) || text.front() == '\r')) {
    text.remove_prefix(1);
  }
  while (!text.empty() && (IsBlankChar(text.back()) || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return text;
}

std::vector<std::string_view> WordsOf(std::string_view line);

// The whole text as a number; nothing where it is none or does not fit.
std::optional<uint64_t> DecimalOf(std::string_view text);
// With or without 0x; at most 16 digits.
std::optional<uint64_t> HexOf(std::string_view text);

// Without terminal escapes (ESC [ ... letter, and its tail where ESC was lost before "[0m") and
// without a byte order mark.
std::string WithoutEscapes(std::string_view text);

// A short piece of foreign text for a message.
std::string Excerpt(std::string_view text);

}  // namespace asterism::topology
