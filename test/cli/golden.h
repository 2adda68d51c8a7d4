// File: test/cli/golden.h
//
// Compares what a person sees with files that people read: test/golden/cli/NAME.txt. Run with
// ASTERISM_UPDATE_GOLDEN=1 to write them anew, then read the difference.
//
//   ExpectGolden("topology-idle", Print(lines, {}));
//
// Thread-safety: none. Cost: one file read.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "test/source_tree.h"

namespace asterism::cli {

inline void ExpectGolden(const std::string& name, const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(asterism::test_paths::SourceTree()) /
                                     "test/golden/cli" / (name + ".txt");
  if (std::getenv("ASTERISM_UPDATE_GOLDEN") != nullptr) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::ifstream file(path);
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(text, expected.str()) << path;
}

}  // namespace asterism::cli
