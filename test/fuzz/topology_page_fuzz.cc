// Reads any bytes as a page of the controller, and draws what they hold.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "cli/doctor_page.h"
#include "cli/doctor_view.h"
#include "cli/topology_tree.h"
#include "cli/topology_view.h"
#include "nlohmann/json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace cli = asterism::cli;
  const std::string_view page(reinterpret_cast<const char*>(data), size);
  if (const auto findings = cli::ParseDoctorPage(page); findings.ok()) {
    const std::string text = cli::Print(cli::DoctorLines(findings->diagnosis, {.width = 80}),
                                        {.width = 80, .colour = false});
    CHECK_THAT(text.find('\x1b') == std::string::npos, "a control character reaches the terminal");
  }
  const auto tree = cli::ParseTopologyTree(page);
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
