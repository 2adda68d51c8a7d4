// File: cli/structured_output.h
//
// A value for programs: as JSON or as YAML, the same fields in the same order.
//
//   std::cout << StructuredText(json, OutputFormat::kYaml);
//
// Text that is no valid UTF-8 gets replacement characters; control characters are escaped. YAML
// strings stand in double quotes wherever a reader could take them for something else.
//
// Thread-safety: pure. Cost: linear in the output.
#pragma once

#include <string>

#include "cli/arguments.h"
#include "nlohmann/json_fwd.hpp"

namespace asterism::cli {

// kJson or kYaml. Ends with a newline.
std::string StructuredText(const nlohmann::ordered_json& value, OutputFormat format);

}  // namespace asterism::cli
