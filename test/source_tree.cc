#include "test/source_tree.h"

namespace asterism::test_paths {

const std::string& SourceTree() {
  static const auto* const path = new std::string(ASTERISM_SOURCE_TREE);
  return *path;
}

const std::string& SharedTree() {
  static const auto* const path = new std::string(ASTERISM_SOURCE_TREE "/../shared");
  return *path;
}

const std::string& BuildTree() {
  static const auto* const path = new std::string(ASTERISM_BUILD_TREE);
  return *path;
}

}  // namespace asterism::test_paths
