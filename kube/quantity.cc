#include "kube/quantity.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/cut_text.h"
#include "fmt/format.h"

namespace asterism::kube {
namespace {

constexpr uint64_t kMaxUnsigned = std::numeric_limits<uint64_t>::max();
constexpr int64_t kMaxSigned = std::numeric_limits<int64_t>::max();
constexpr size_t kMaxQuantityText = 256;
// Beyond this a positive power saturates every non-zero value, and a negative one rounds up to 1.
constexpr int64_t kExponentLimit = 100000;

struct QuantitySuffix {
  int64_t decimal = 0;  // power of ten
  int binary = 0;       // power of two
};

constexpr std::array<std::pair<std::string_view, QuantitySuffix>, 16> kQuantitySuffixes = {{
    {"", {0, 0}},
    {"n", {-9, 0}},
    {"u", {-6, 0}},
    {"m", {-3, 0}},
    {"k", {3, 0}},
    {"M", {6, 0}},
    {"G", {9, 0}},
    {"T", {12, 0}},
    {"P", {15, 0}},
    {"E", {18, 0}},
    {"Ki", {0, 10}},
    {"Mi", {0, 20}},
    {"Gi", {0, 30}},
    {"Ti", {0, 40}},
    {"Pi", {0, 50}},
    {"Ei", {0, 60}},
}};

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// Takes the leading digits off `text`.
std::string_view TakeDigits(std::string_view& text) {
  size_t length = 0;
  while (length < text.size() && IsDigit(text[length])) {
    ++length;
  }
  const std::string_view digits = text.substr(0, length);
  text.remove_prefix(length);
  return digits;
}

// "e3", "E-9": the rest after the letter is a signed number.
std::optional<QuantitySuffix> ParseExponent(std::string_view suffix) {
  suffix.remove_prefix(1);
  const bool negative = suffix.front() == '-';
  if (negative || suffix.front() == '+') {
    suffix.remove_prefix(1);
  }
  if (suffix.empty()) {
    return std::nullopt;
  }
  int64_t exponent = 0;
  for (const char c : suffix) {
    if (!IsDigit(c)) {
      return std::nullopt;
    }
    exponent = std::min(exponent * 10 + (c - '0'), kExponentLimit);
  }
  return QuantitySuffix{.decimal = negative ? -exponent : exponent};
}

std::optional<QuantitySuffix> ParseSuffix(std::string_view suffix) {
  for (const auto& [name, value] : kQuantitySuffixes) {
    if (name == suffix) {
      return value;
    }
  }
  if (suffix.size() > 1 && (suffix.front() == 'e' || suffix.front() == 'E')) {
    return ParseExponent(suffix);
  }
  return std::nullopt;
}

uint64_t MultiplyUpTo(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMaxUnsigned : product;
}

// ceil(0.DIGITS * 2^binary), the digits preceded by `zeros` zeros. Works from the last digit to the
// first: rounding up inside does not change the rounded result, since what is added is whole.
uint64_t RoundUpFraction(std::string_view digits, int64_t zeros, int binary) {
  uint64_t value = 0;
  for (size_t i = digits.size(); i > 0; --i) {
    const auto digit = static_cast<uint64_t>(digits[i - 1] - '0');
    value = ((digit << binary) + value + 9) / 10;
  }
  for (; zeros > 0 && value > 1; --zeros) {
    value = (value + 9) / 10;
  }
  return value;
}

// The whole number that DIGITS * 10^decimal * 2^binary is rounded up to.
uint64_t RoundUp(const std::string& digits, int64_t decimal, int binary) {
  const auto size = static_cast<int64_t>(digits.size());
  const int64_t whole_digits = std::clamp<int64_t>(size + decimal, 0, size);
  uint64_t whole = 0;
  for (int64_t i = 0; i < whole_digits; ++i) {
    const uint64_t shifted = MultiplyUpTo(whole, 10);
    const auto digit = static_cast<uint64_t>(digits[static_cast<size_t>(i)] - '0');
    whole = shifted > kMaxUnsigned - digit ? kMaxUnsigned : shifted + digit;
  }
  for (int64_t i = 0; i < decimal && whole != 0 && whole != kMaxUnsigned; ++i) {
    whole = MultiplyUpTo(whole, 10);
  }
  whole = MultiplyUpTo(whole, uint64_t{1} << binary);
  const std::string_view fraction =
      std::string_view(digits).substr(static_cast<size_t>(whole_digits));
  const int64_t zeros = std::max<int64_t>(0, -(size + decimal));
  const uint64_t rest = RoundUpFraction(fraction, zeros, binary);
  return whole > kMaxUnsigned - rest ? kMaxUnsigned : whole + rest;
}

absl::Status BadQuantity(std::string_view text) {
  return absl::InvalidArgumentError(
      fmt::format("not a quantity (want a number with one of the suffixes n u m k M G T P E Ki Mi "
                  "Gi Ti Pi Ei, or an exponent): \"{}\"",
                  base::CutText(text, 64)));
}

absl::StatusOr<int64_t> ParseScaled(std::string_view text, int64_t scale) {
  const std::string_view whole_text = text;
  if (text.empty() || text.size() > kMaxQuantityText) {
    return BadQuantity(whole_text);
  }
  const bool negative = text.front() == '-';
  if (negative || text.front() == '+') {
    text.remove_prefix(1);
  }
  std::string digits(TakeDigits(text));
  int64_t decimal = scale;
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    const std::string_view fraction = TakeDigits(text);
    digits += fraction;
    decimal -= static_cast<int64_t>(fraction.size());
  }
  const std::optional<QuantitySuffix> suffix = ParseSuffix(text);
  if (!suffix.has_value()) {
    return BadQuantity(whole_text);
  }
  const uint64_t value = RoundUp(digits, decimal + suffix->decimal, suffix->binary);
  const int64_t limited =
      value > static_cast<uint64_t>(kMaxSigned) ? kMaxSigned : static_cast<int64_t>(value);
  return negative ? -limited : limited;
}

}  // namespace

absl::StatusOr<int64_t> ParseQuantityMilli(std::string_view text) {
  return ParseScaled(text, 3);
}

absl::StatusOr<int64_t> ParseQuantity(std::string_view text) {
  return ParseScaled(text, 0);
}

int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) {
    return sum;
  }
  return a < 0 ? -kMaxSigned : kMaxSigned;
}

int64_t SaturatingMultiply(int64_t a, int64_t b) {
  int64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) {
    return product;
  }
  return (a < 0) == (b < 0) ? kMaxSigned : -kMaxSigned;
}

}  // namespace asterism::kube
