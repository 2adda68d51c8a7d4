// Any bytes as a configuration file: never a crash, and what is accepted prints and reads back.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "controller/configuration.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace asterism::controller;  // NOLINT(google-build-using-namespace): one function
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<Configuration> configuration = ParseConfiguration(text);
  if (!configuration.ok()) {
    CHECK_THAT(!configuration.status().message().empty(), "a refusal without a reason");
    return 0;
  }
  const absl::StatusOr<Configuration> again =
      ParseConfiguration(ConfigurationToYaml(*configuration));
  CHECK_THAT(again.ok() && *again == *configuration, "a printed configuration reads differently");
  NodeSelectorOf(*configuration);
  return 0;
}
