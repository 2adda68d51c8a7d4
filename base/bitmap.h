// File: base/bitmap.h
//
// A fixed-size set of dense ids, 64 a word, for scans over nodes and GPUs.
//
//   Bitmap usable(node_count);  usable.Set(3);
//   usable.ForEach(begin, end, [&](size_t node) { ... });
//
// Thread-safety: none. Cost: Set/Test O(1); Count and ForEach one word at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace asterism::base {

class Bitmap {
 public:
  Bitmap() = default;
  explicit Bitmap(size_t size, bool value = false)
      : size_(size), words_((size + 63) / 64, value ? ~uint64_t{0} : 0) {
    TrimTail();
  }

  size_t size() const { return size_; }
  bool Test(size_t index) const { return (words_[index / 64] >> (index % 64)) & 1; }
  void Set(size_t index, bool value = true) {
    const uint64_t bit = uint64_t{1} << (index % 64);
    words_[index / 64] = value ? words_[index / 64] | bit : words_[index / 64] & ~bit;
  }

  size_t Count() const {
    size_t count = 0;
    for (const uint64_t word : words_) {
      count += static_cast<size_t>(std::popcount(word));
    }
    return count;
  }

  // Keeps what is also in `other`, which has the same size.
  void And(const Bitmap& other) {
    for (size_t i = 0; i < words_.size(); ++i) {
      words_[i] &= other.words_[i];
    }
  }

  // Calls visit(index) for each member of [begin, end), rising.
  template <typename Visit>
  void ForEach(size_t begin, size_t end, Visit visit) const {
    end = std::min(end, size_);
    for (size_t index = begin; index < end;) {
      const uint64_t rest = words_[index / 64] >> (index % 64);
      if (rest == 0) {
        index = (index / 64 + 1) * 64;
        continue;
      }
      index += static_cast<size_t>(std::countr_zero(rest));
      if (index >= end) {
        return;
      }
      visit(index);
      ++index;
    }
  }

  bool operator==(const Bitmap&) const = default;

 private:
  void TrimTail() {
    if (size_ % 64 != 0 && !words_.empty()) {
      words_.back() &= (uint64_t{1} << (size_ % 64)) - 1;
    }
  }

  size_t size_ = 0;
  std::vector<uint64_t> words_;
};

}  // namespace asterism::base
