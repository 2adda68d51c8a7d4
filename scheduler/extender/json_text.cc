#include "scheduler/extender/json_text.h"

#include <charconv>

namespace asterism::scheduler::extender {

void AppendJsonText(std::string_view text, std::string& out) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  size_t plain = 0;  // begin of the bytes not yet copied
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x20 && byte != '"' && byte != '\\') {
      continue;
    }
    out += text.substr(plain, i - plain);
    plain = i + 1;
    out += '\\';
    if (byte >= 0x20) {
      out += text[i];
    } else {
      out += "u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  out += text.substr(plain);
  out += '"';
}

void AppendJsonNumber(int64_t number, std::string& out) {
  char digits[24];
  const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), number);
  out.append(digits, end);
}

}  // namespace asterism::scheduler::extender
