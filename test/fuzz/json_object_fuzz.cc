// Reads any text as JSON answers: one object of each kind, a list, an error.

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "kube/api_error.h"
#include "kube/decoder.h"
#include "kube/node.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace asterism::kube;
  const Reply reply{422, "application/json",
                    std::string(reinterpret_cast<const char*>(data), size)};
  ErrorFromReply(reply, std::nullopt).IgnoreError();
  if (const auto page = ListPageOf(reply); page.ok()) {
    for (const RawObject& item : page->items) {
      CHECK_THAT(!item.bytes.empty(), "an item of a list is empty");
      DecodePod(item).status().IgnoreError();
    }
  }
  const RawObject object{Encoding::kJson, reply.body};
  DecodePod(object).status().IgnoreError();
  DecodeNode(object).status().IgnoreError();
  DecodeLease(object).status().IgnoreError();
  DecodePriorityClass(object).status().IgnoreError();
  return 0;
}
