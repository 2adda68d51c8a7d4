// File: base/program_options.h
//
// The command line of a program: its ABSL_FLAGs, written with dashes as those of Kubernetes are.
//
//   const std::optional<int> ended = base::ParseProgramOptions(
//       argc, argv, {.name = "asterism-agent", .usage = "...", .main_file = "agent/main.cc", ...});
//   if (ended.has_value()) return *ended;
//
// A library of its own: programs without ABSL_FLAGs do not link it. --help and --version print and
// end the process.
//
// Thread-safety: first thing in main. Cost: once.
#pragma once

#include <optional>
#include <string_view>

namespace asterism::base {

struct ProgramOptions {
  std::string_view name;
  std::string_view usage;      // one line
  std::string_view main_file;  // whose options --help shows
  std::string_view version;
};

// An exit code, after a line on the error stream, where there is a word that is no option.
std::optional<int> ParseProgramOptions(int argc, char** argv, const ProgramOptions& options);

}  // namespace asterism::base
