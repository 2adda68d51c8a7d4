#include "cli/xml_text.h"

#include "cli/styled_text.h"

namespace asterism::cli {

std::string XmlText(std::string_view text) {
  std::string safe;
  for (const char letter : Escaped(text)) {
    switch (letter) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe.push_back(letter);
    }
  }
  return safe;
}

}  // namespace asterism::cli
