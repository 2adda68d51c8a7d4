// File: operator/text_with_holes.h
//
// A text that is made once and filled in many times: the JSON of a pod, equal for all pods of a
// gang except for a few values.
//
//   HoleMarks marks(2, taken);                   // `taken`: texts that must not look like a mark
//   object["name"] = "llama-r" + marks[0];
//   TextWithHoles text(object.dump(), marks);
//   text.Fill({"64", "gpu-0008"});
//
// Thread-safety: immutable after construction. Cost: Fill copies the text once.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace asterism::operators {

// Texts that stand for the holes while a document is built. They need no escape in JSON. The text
// right before a mark must not end in @.
class HoleMarks {
 public:
  // No mark occurs in `taken`, whatever it holds.
  HoleMarks(size_t holes, std::string_view taken);

  const std::string& operator[](size_t hole) const { return marks_[hole]; }
  size_t size() const { return marks_.size(); }
  std::string_view head() const { return head_; }

 private:
  std::string head_;  // of every mark, of no other text
  std::vector<std::string> marks_;
};

class TextWithHoles {
 public:
  TextWithHoles(std::string_view text, const HoleMarks& marks);

  // `values[hole]` goes in as it is.
  std::string Fill(std::span<const std::string> values) const;

 private:
  struct Piece {
    std::string text;
    size_t hole;  // after the text
  };

  std::vector<Piece> pieces_;
  std::string tail_;
};

}  // namespace asterism::operators
