// Reads any bytes as a page of the controller, and draws what they hold.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "cli/topology_tree.h"
#include "cli/topology_view.h"
#include "nlohmann/json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace cli = asterism::cli;
  const auto tree =
      cli::ParseTopologyTree(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!tree.ok()) {
    return 0;
  }
  for (const bool wide : {false, true}) {
    const std::string text =
        cli::Print(cli::TopologyLines(*tree, {.wide = wide}), {.width = 80, .colour = false});
    CHECK_THAT(text.find('\x1b') == std::string::npos, "a control character reaches the terminal");
  }
  cli::TopologyJson(*tree, std::nullopt);
  return 0;
}
