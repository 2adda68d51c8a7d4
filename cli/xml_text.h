// File: cli/xml_text.h
//
// Foreign text inside an SVG: control and hidden characters as escapes (cli/styled_text.h), and
// what XML itself means by a letter as an entity.
//
//   svg += fmt::format("<text>{}</text>", XmlText(name));
//
// Thread-safety: pure. Cost: O(text).
#pragma once

#include <string>
#include <string_view>

namespace asterism::cli {

std::string XmlText(std::string_view text);

}  // namespace asterism::cli
