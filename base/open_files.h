// File: base/open_files.h
//
// How many files and sockets this process may have open. Many systems start programs with a soft
// limit of 1,024, for the sake of select(2), and let them have far more.
//
//   const size_t limit = RaiseOpenFileLimit();   // first thing in main
//
// Thread-safety: any thread. Cost: one or two system calls.
#pragma once

#include <cstddef>

namespace asterism::base {

inline constexpr size_t kOpenFilesMax = 65'536;

// Raises the soft limit to the hard one, at most to kOpenFilesMax; a higher one stays. Returns what
// holds then.
size_t RaiseOpenFileLimit();

// Of this moment, at most kOpenFilesMax.
size_t OpenFileLimit();

}  // namespace asterism::base
