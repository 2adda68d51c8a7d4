// Reads any bytes as protobuf answers: one object of each kind, a list, an error.

#include <cstddef>
#include <cstdint>
#include <string>

#include "kube/api_error.h"
#include "kube/decoder.h"
#include "kube/node.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace asterism::kube;
  const Reply reply{
      422, "application/vnd.kubernetes.protobuf",
      "k8s" + std::string(1, '\0') + std::string(reinterpret_cast<const char*>(data), size)};
  ErrorFromReply(reply, std::nullopt).IgnoreError();
  const auto page = ListPageOf(reply);
  const auto object = ObjectOf(reply);
  if (object.ok()) {
    DecodePod(*object).status().IgnoreError();
    DecodeNode(*object).status().IgnoreError();
    DecodeLease(*object).status().IgnoreError();
    DecodePriorityClass(*object).status().IgnoreError();
    DecodeMeta(*object).status().IgnoreError();
  }
  return 0;
}
