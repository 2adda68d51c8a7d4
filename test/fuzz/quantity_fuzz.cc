// Reads any text as a quantity: thousandths and whole units must agree.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "base/check.h"
#include "kube/quantity.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace asterism::kube;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto whole = ParseQuantity(text);
  const auto milli = ParseQuantityMilli(text);
  CHECK_THAT(whole.ok() == milli.ok(), "one reading succeeds, the other fails");
  if (whole.ok() && std::abs(*milli) != std::numeric_limits<int64_t>::max()) {
    const int64_t rounded_up = (std::abs(*milli) + 999) / 1000;
    CHECK_THAT(std::abs(*whole) == rounded_up, "whole units are not the thousandths rounded up");
  }
  return 0;
}
