// File: topology/import/xml_tree.h
//
// An XML document as a tree with line numbers, within bounds, read by expat. Entities are refused
// and nothing outside the text is ever fetched; character data is left out.
//
//   ASSIGN_OR_RETURN(const XmlElement root, ReadXmlTree(text));
//   root.Attribute("numaid");
//
// Thread-safety: pure. Cost: one pass; at most kXmlElementsMax elements, kXmlDepthMax levels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace asterism::topology {

inline constexpr size_t kXmlElementsMax = 1'000'000;
inline constexpr size_t kXmlDepthMax = 128;

struct XmlElement {
  std::string name;
  uint32_t line = 0;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<XmlElement> children;
  std::string text;  // of hwloc's lists only: the first kXmlTextMax bytes

  // Empty when absent.
  std::string_view Attribute(std::string_view key) const;
};

// The error names the line.
absl::StatusOr<XmlElement> ReadXmlTree(std::string_view text);

}  // namespace asterism::topology
