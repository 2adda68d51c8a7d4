// Reads any bytes as node ranges; what they hold is written and read back equal.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "operator/node_ranges.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto names = asterism::operators::ParseNodeRanges(text, 1000);
  if (names.ok()) {
    const auto again = asterism::operators::ParseNodeRanges(
        asterism::operators::FormatNodeRanges(*names), names->size());
    CHECK_THAT(again.ok() && *again == *names, "node ranges do not come back equal");
  }
  return 0;
}
