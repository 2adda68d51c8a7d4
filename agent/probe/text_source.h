// File: agent/probe/text_source.h
//
// Where a text of a tool comes from: a file that somebody on the node keeps up to date, or the
// program itself.
//
//   const TextSource lldp = {.command = {"lldpctl", "-f", "json0"}};
//   ASSIGN_OR_RETURN(const std::string text, ReadTextSource(lldp, 1 << 20));
//
// Thread-safety: yes. Cost: a file, or a process that is ended after two seconds.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace asterism::agent {

struct TextSource {
  std::string file;
  std::vector<std::string> command;  // used without a file

  bool empty() const { return file.empty() && command.empty(); }
  // For messages; not of an empty one.
  const std::string& name() const { return file.empty() ? command.front() : file; }
};

// Errors name the file or the program.
absl::StatusOr<std::string> ReadTextSource(const TextSource& source, size_t bytes_max);

}  // namespace asterism::agent
