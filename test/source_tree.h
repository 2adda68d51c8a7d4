// File: test/source_tree.h
//
// Where tests find fixtures and pages, and what else the build has made.
//
//   std::ifstream file(SourceTree() + "/test/golden/quantity.tsv");
//
// Paths of this machine stand in one small file, so that a compiler's cache serves every clone.
//
// Thread-safety: pure. Cost: none.
#pragma once

#include <string>

namespace asterism::test_paths {

const std::string& SourceTree();  // the root of the repository
const std::string& SharedTree();  // real inputs beside it, where there are any
const std::string& BuildTree();   // build/PRESET

}  // namespace asterism::test_paths
