#include "base/program_options.h"

#include <iostream>
#include <string>
#include <vector>

#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"

namespace asterism::base {

std::optional<int> ParseProgramOptions(int argc, char** argv, const ProgramOptions& options) {
  // The library wants underscores in names.
  std::vector<std::string> arguments(argv, argv + argc);
  std::vector<char*> pointers;
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string& argument = arguments[i];
    for (size_t at = 2;
         i > 0 && argument.starts_with("--") && at < argument.size() && argument[at] != '='; ++at) {
      argument[at] = argument[at] == '-' ? '_' : argument[at];
    }
    pointers.push_back(argument.data());
  }
  absl::SetProgramUsageMessage(std::string(options.usage));
  absl::SetFlagsUsageConfig(
      {.contains_help_flags =
           [main_file = std::string(options.main_file)](absl::string_view file) {
             return absl::EndsWith(file, main_file);
           },
       .version_string = [version = std::string(options.version)] { return version + "\n"; }});
  const std::vector<char*> rest = absl::ParseCommandLine(argc, pointers.data());
  if (rest.size() > 1) {
    std::cerr << options.name << ": " << rest[1] << ": not an option; see --help\n";
    return 2;
  }
  return std::nullopt;
}

}  // namespace asterism::base
