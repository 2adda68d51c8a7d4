// File: cli/styled_text.h
//
// Lines for people: words with a tone, cut or wrapped to the width of a terminal, coloured or not.
// Views build lines and know nothing of terminals; Print turns them into bytes.
//
//   Line line;
//   line.Add("cluster: ", Tone::kBold).Add("8184 free", Tone::kGood);
//   std::cout << Print({line}, {.width = 80, .colour = true});
//
// Everything that is added is foreign: control characters, invalid UTF-8, and characters that turn
// or hide text are shown as escapes (\n, \x1b, \u202e), so no name can act on a terminal.
//
// Thread-safety: values. Cost: linear in the text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace asterism::cli {

enum class Tone { kPlain, kBold, kFaint, kGood, kWarn, kBad };

struct Span {
  std::string text;  // escaped already
  Tone tone = Tone::kPlain;
};

class Line {
 public:
  Line() = default;
  explicit Line(std::string_view text, Tone tone = Tone::kPlain) { Add(text, tone); }

  Line& Add(std::string_view text, Tone tone = Tone::kPlain);
  Line& AddSpaces(size_t count);
  const std::vector<Span>& spans() const { return spans_; }

 private:
  std::vector<Span> spans_;
};

struct Paper {
  size_t width = 0;  // columns; 0: no limit
  bool colour = false;
};

// Each line ends with a newline. Longer ones are cut, with "..." where there is room for it.
std::string Print(const std::vector<Line>& lines, const Paper& paper);

std::string Escaped(std::string_view text);
// Columns that escaped text takes: wide characters 2, combining marks 0.
size_t DisplayWidth(std::string_view text);
// At most `width` columns of escaped text; "..." at the end when cut. 0: whole.
std::string CutToWidth(std::string_view text, size_t width);

// `text` in lines of at most `width` columns (0: one line; words are not broken), the first behind
// `label`, the others indented as far.
void AddWrapped(std::string_view label, std::string_view text, Tone tone, size_t width,
                std::vector<Line>& lines);

}  // namespace asterism::cli
