// File: base/small_file.h
//
// Reads a file that an operator named: a configuration, a certificate, a token. Never waits: what
// is not a regular file (a FIFO, a device) is an error, so that the calling thread cannot hang on
// it.
//
//   ASSIGN_OR_RETURN(const std::string text, base::ReadSmallFile("/etc/asterism/config.yaml"));
//
// Errors name the path and the reason: kNotFound, kPermissionDenied, kInvalidArgument (not a
// regular file, or larger than kSmallFileMax), kUnknown. Links are followed (mounted ConfigMaps are
// links).
//
// Thread-safety: yes. Cost: open, fstat, read.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace asterism::base {

inline constexpr size_t kSmallFileMax = size_t{4} << 20;

absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

// The same with a limit of the caller, for files that are large by nature.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t bytes_max);

}  // namespace asterism::base
