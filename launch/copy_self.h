// File: launch/copy_self.h
//
// Puts the running program into a folder that the training container shares: the init container
// does this, so that any image can run under the launcher.
//
//   RETURN_IF_ERROR(CopySelf("/asterism"));   // makes /asterism/asterism-launch
//
// The file appears complete or not at all. Thread-safety: pure but for the file system. Cost: a
// copy of 10 MB.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace asterism::launch {

inline constexpr char kProgramName[] = "asterism-launch";

absl::Status CopySelfInto(const std::string& folder);

// What to do about an errno of the copy; empty: nothing that is known.
std::string RemedyForCopy(int error);

}  // namespace asterism::launch
