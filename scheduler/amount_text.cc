#include "scheduler/amount_text.h"

namespace asterism::scheduler {

std::string Thousands(int64_t number) {
  std::string text = std::to_string(number);
  const size_t first = number < 0 ? 1 : 0;
  for (size_t position = text.size(); position > first + 3;) {
    position -= 3;
    text.insert(position, ",");
  }
  return text;
}

std::string Counted(int64_t number, std::string_view singular) {
  std::string text = Thousands(number) + " " + std::string(singular);
  if (number != 1) {
    text += "s";
  }
  return text;
}

}  // namespace asterism::scheduler
