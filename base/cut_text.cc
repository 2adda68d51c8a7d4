#include "base/cut_text.h"

namespace asterism::base {

std::string CutText(std::string_view text, size_t bytes) {
  constexpr std::string_view kEnd = "...";
  if (text.size() <= bytes) {
    return std::string(text);
  }
  size_t end = bytes > kEnd.size() ? bytes - kEnd.size() : 0;
  // 10xxxxxx are the later bytes of a UTF-8 character.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  return std::string(text.substr(0, end)).append(kEnd);
}

}  // namespace asterism::base
