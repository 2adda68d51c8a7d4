#include "topology/natural_order.h"

#include <cstddef>

namespace asterism::topology {
namespace {

bool IsDigit(char letter) {
  return letter >= '0' && letter <= '9';
}

// Cuts the run of digits at `position`, without its leading zeros, and moves past it.
std::string_view TakeNumber(std::string_view text, size_t& position) {
  while (position < text.size() && text[position] == '0') {
    ++position;
  }
  const size_t begin = position;
  while (position < text.size() && IsDigit(text[position])) {
    ++position;
  }
  return text.substr(begin, position - begin);
}

}  // namespace

int NaturalCompare(std::string_view left, std::string_view right) {
  size_t i = 0;
  size_t j = 0;
  while (i < left.size() && j < right.size()) {
    if (IsDigit(left[i]) && IsDigit(right[j])) {
      const std::string_view left_number = TakeNumber(left, i);
      const std::string_view right_number = TakeNumber(right, j);
      if (left_number.size() != right_number.size()) {
        return left_number.size() < right_number.size() ? -1 : 1;
      }
      if (const int order = left_number.compare(right_number); order != 0) {
        return order;
      }
      continue;
    }
    if (left[i] != right[j]) {
      return static_cast<unsigned char>(left[i]) < static_cast<unsigned char>(right[j]) ? -1 : 1;
    }
    ++i;
    ++j;
  }
  if (i < left.size()) {
    return 1;
  }
  if (j < right.size()) {
    return -1;
  }
  return left.compare(right);
}

}  // namespace asterism::topology
