// File: agent/probe/child_output.h
//
// What a program prints, within a time and a size. It gets no input, and is killed with its process
// group when it is too slow or too loud.
//
//   ASSIGN_OR_RETURN(const std::string text,
//                    ChildOutput({"lldpctl", "-f", "json0"}, absl::Seconds(2), 1 << 20));
//
// Errors name the program: kNotFound (it does not start), kDeadlineExceeded, kResourceExhausted,
// kUnavailable (it failed, with its exit code).
//
// Thread-safety: yes. Cost: a process; waits until the program or its time ends.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace asterism::agent {

// `command` is not empty; its first word is looked up in $PATH.
absl::StatusOr<std::string> ChildOutput(const std::vector<std::string>& command,
                                        absl::Duration deadline, size_t bytes_max);

}  // namespace asterism::agent
