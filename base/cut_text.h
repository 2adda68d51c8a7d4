// File: base/cut_text.h
//
// Shortens a text of foreign origin for a message or a field with a limit.
//
//   CutText("abcdef", 5)   // "ab..."
//
// Thread-safety: pure. Cost: a copy of what is kept.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace asterism::base {

// The first `bytes` bytes of text, cut at a whole UTF-8 character, "..." at the end when cut.
std::string CutText(std::string_view text, size_t bytes);

}  // namespace asterism::base
