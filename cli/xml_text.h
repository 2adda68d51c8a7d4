// File: cli/xml_text.h
//
// Foreign text inside a picture: what acts on a terminal shows as escapes, what means something in
// XML as entities.
//
//   svg += fmt::format("<text>{}</text>", XmlText(name));
//
// Thread-safety: pure. Cost: linear in the text.
#pragma once

#include <string>
#include <string_view>

namespace asterism::cli {

std::string XmlText(std::string_view text);

}  // namespace asterism::cli
