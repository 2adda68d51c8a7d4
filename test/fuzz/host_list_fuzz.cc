// Expands any bytes as a host list, and writes the names back.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "topology/host_list.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using asterism::topology::CompressHostList;
  using asterism::topology::ExpandHostList;
  constexpr size_t kNamesMax = 2000;
  const auto names = ExpandHostList({reinterpret_cast<const char*>(data), size}, kNamesMax);
  if (!names.ok()) {
    CHECK_THAT(!names.status().message().empty(), "an error without a message");
    return 0;
  }
  CHECK_THAT(names->size() <= kNamesMax, "more names than may be");
  const auto again = ExpandHostList(CompressHostList(*names), kNamesMax);
  CHECK_THAT(again.ok() && *again == *names, "a list does not read back");
  return 0;
}
