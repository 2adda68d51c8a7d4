// Reads any bytes as a config.json and as a short YAML of a model; what is accepted is counted.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "planner/model_source.h"
#include "planner/model_spec.h"

namespace asterism::planner {
namespace {

void FuzzModel(const absl::StatusOr<ModelSpec>& model) {
  if (!model.ok()) {
    CHECK_THAT(!model.status().message().empty(), "an error without a message");
    return;
  }
  CHECK_THAT(CheckModel(*model).ok(), "a model that its own check refuses");
  const ParameterCount count = CountParameters(*model);
  CHECK_THAT(count.total > 0 && count.active > 0 && count.active <= count.total, "counts");
}

}  // namespace
}  // namespace asterism::planner

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  asterism::planner::FuzzModel(asterism::planner::ParseHuggingFaceConfig(text));
  asterism::planner::FuzzModel(asterism::planner::ParseModelYaml(text));
  return 0;
}
