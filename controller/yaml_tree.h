// File: controller/yaml_tree.h
//
// A YAML document as a plain tree with line numbers, within bounds. Stricter than YAML: one
// document, no duplicate keys, no anchors, aliases or tags, so that a file means what a reader
// sees.
//
//   ASSIGN_OR_RETURN(const YamlNode root, ParseYamlTree(text));
//   if (const YamlNode* ports = root.Find("ports")) ...
//
// Thread-safety: pure; a tree is a value. Cost: one pass; at most kYamlBytesMax bytes,
// kYamlDepthMax levels, kYamlNodesMax nodes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace asterism::controller {

inline constexpr size_t kYamlBytesMax = size_t{1} << 20;
inline constexpr size_t kYamlDepthMax = 16;
inline constexpr size_t kYamlNodesMax = 10'000;

struct YamlField;

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  int line = 0;         // counted from 1
  bool quoted = false;  // a scalar in quotes is text whatever it looks like
  std::string text;     // of a scalar
  std::vector<YamlNode> items;
  std::vector<YamlField> fields;  // of a map, in the order of the file

  // The value of that key, or null.
  const YamlNode* Find(std::string_view key) const;
};

struct YamlField {
  std::string key;
  YamlNode value;
};

// The error names line and column.
absl::StatusOr<YamlNode> ParseYamlTree(std::string_view text);

// In double quotes, with everything escaped that would end them or the line.
std::string QuoteYaml(std::string_view text);

}  // namespace asterism::controller
