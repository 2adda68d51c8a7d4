// File: topology/import/document_tree.h
//
// YAML and JSON documents as one kind of tree, with line numbers where the format has them, within
// bounds. Aliases, anchors and tags of YAML are refused; a key twice keeps the first.
//
//   ASSIGN_OR_RETURN(const std::vector<DocumentNode> documents, ReadDocuments(text));
//   documents[0].Text("kind");
//
// Thread-safety: pure. Cost: one pass; at most kDocumentNodesMax values, kDocumentDepthMax levels,
// kYamlTextMax bytes of YAML.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace asterism::topology {

inline constexpr size_t kDocumentDepthMax = 64;
inline constexpr size_t kDocumentNodesMax = 20'000'000;
inline constexpr size_t kYamlTextMax = size_t{64} << 20;

struct DocumentField;

struct DocumentNode {
  enum class Kind : uint8_t { kNull, kText, kNumber, kList, kMap };

  Kind kind = Kind::kNull;
  uint32_t line = 0;  // 0: not known
  std::string text;   // of a text or number, as written; "true" and "false" are numbers
  std::vector<DocumentNode> items;
  std::vector<DocumentField> fields;

  const DocumentNode* Find(std::string_view key) const;
  // The field's text or number; empty when absent or no scalar.
  std::string_view Text(std::string_view key) const;
  // The items of a list field; empty when absent.
  const std::vector<DocumentNode>& Items(std::string_view key) const;
  // The items of a list; of anything else, itself.
  std::span<const DocumentNode> ItemsOrSelf() const;
  bool is_map() const { return kind == Kind::kMap; }
  bool is_list() const { return kind == Kind::kList; }
};

struct DocumentField {
  std::string key;
  DocumentNode value;
};

// JSON when it begins with { or [, else YAML. Errors name the line.
absl::StatusOr<std::vector<DocumentNode>> ReadDocuments(std::string_view text);

}  // namespace asterism::topology
