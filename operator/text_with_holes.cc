#include "operator/text_with_holes.h"

#include <algorithm>

#include "base/check.h"
#include "fmt/format.h"

namespace asterism::operators {
namespace {

constexpr char kMarkCharacter = '@';

}  // namespace

HoleMarks::HoleMarks(size_t holes, std::string_view taken) {
  // One more than the longest run in `taken`, so no text can imitate a mark.
  size_t longest = 0;
  size_t run = 0;
  for (const char c : taken) {
    run = c == kMarkCharacter ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  head_.assign(longest + 1, kMarkCharacter);
  marks_.reserve(holes);
  for (size_t hole = 0; hole < holes; ++hole) {
    marks_.push_back(fmt::format("{}{};", head_, hole));
  }
}

TextWithHoles::TextWithHoles(std::string_view text, const HoleMarks& marks) {
  // By counting, since a search for a long run of one character among others is quadratic.
  const size_t head_size = marks.head().size();
  size_t start = 0;
  size_t run = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    run = text[i] == kMarkCharacter ? run + 1 : 0;
    if (run < head_size) {
      continue;
    }
    const size_t mark_start = i + 1 - head_size;
    const std::string_view rest = text.substr(i + 1);
    size_t hole = 0;
    while (hole < marks.size() &&
           !rest.starts_with(std::string_view(marks[hole]).substr(head_size))) {
      ++hole;
    }
    CHECK_THAT(hole < marks.size(), "a mark without a hole");
    pieces_.push_back({std::string(text.substr(start, mark_start - start)), hole});
    start = mark_start + marks[hole].size();
    i = start - 1;
    run = 0;
  }
  tail_ = text.substr(start);
}

std::string TextWithHoles::Fill(std::span<const std::string> values) const {
  size_t size = tail_.size();
  for (const Piece& piece : pieces_) {
    size += piece.text.size() + values[piece.hole].size();
  }
  std::string out;
  out.reserve(size);
  for (const Piece& piece : pieces_) {
    out.append(piece.text).append(values[piece.hole]);
  }
  return out.append(tail_);
}

}  // namespace asterism::operators
