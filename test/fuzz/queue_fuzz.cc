// Reads any bytes as a Queue, asks who may use it and writes its status.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "nlohmann/json.hpp"
#include "operator/queue.h"

namespace asterism::operators {
namespace {

void FuzzQueue(std::string_view text) {
  const auto queue = ParseQueue(text);
  if (!queue.ok()) {
    CHECK_THAT(!queue.status().message().empty(), "an error without a message");
    return;
  }
  TrainingJob job;
  job.meta.namespace_name = "research";
  job.spec.gpus = 8;
  const absl::Status allowed = MayUse(*queue, job, {{"team", "llm"}});
  CHECK_THAT(allowed.ok() || !allowed.message().empty(), "a refusal without a message");
  const auto status = nlohmann::json::parse(
      QueueStatusApplyBody(*queue, {{"H200", 8}, {"*", 1}}, 1, 8, {}), nullptr, false);
  CHECK_THAT(status.is_object(), "the apply body is no JSON");
}

}  // namespace
}  // namespace asterism::operators

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  asterism::operators::FuzzQueue(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
