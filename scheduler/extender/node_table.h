// File: scheduler/extender/node_table.h
//
// Node names as the extender meets them: as JSON text, thousands in a row, nearly always in the
// order of the last time. The table holds each name ready to be compared with and copied into JSON.
//
//   NodeTable table(view);
//   OrderHints hints;                                // one a verb and parser
//   uint32_t id = hints.After(previous);             // the likely next one
//   if (!table.TokenIs(id, raw_token)) id = table.Find(name);
//
// A new table is needed only when the set of nodes changes, not with each version of the ledger.
//
// Thread-safety: NodeTable immutable; OrderHints none. Cost: building about 100 ns a node; TokenIs
// one memcmp.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "scheduler/ledger.h"

namespace asterism::scheduler::extender {

inline constexpr uint32_t kNoNode = 0xffffffff;
// Bytes behind every fragment that may be read, so that short ones are copied in fixed pieces.
inline constexpr size_t kFragmentPadding = 64;

class NodeTable {
 public:
  explicit NodeTable(const LedgerView& view);

  // True when the table still has exactly the nodes of `view`, with the same ids.
  bool Fits(const LedgerView& view) const;

  size_t size() const { return offsets_.size() - 1; }
  // kNoNode when absent.
  uint32_t Find(std::string_view name) const;
  // `"name",` with the quotes and the comma.
  std::string_view Fragment(uint32_t id) const {
    return {fragments_.data() + offsets_[id], offsets_[id + 1] - offsets_[id]};
  }
  // Compares with the raw text of a JSON value that may be followed by anything.
  bool TokenIs(uint32_t id, std::string_view token) const {
    const size_t length = offsets_[id + 1] - offsets_[id] - 1;
    return token.size() >= length &&
           std::memcmp(token.data(), fragments_.data() + offsets_[id], length) == 0;
  }

 private:
  std::shared_ptr<const topology::Cluster> cluster_;  // keeps the pointer from being used again
  uint64_t version_;                                  // of the view, when it has no cluster
  std::string names_;
  std::string fragments_;
  std::vector<uint32_t> offsets_;  // into fragments_, one more than nodes
  absl::flat_hash_map<std::string_view, uint32_t> id_by_name_;  // keys are parts of names_
};

// Which node followed which in the last list.
class OrderHints {
 public:
  // For a table of `size` nodes that is new to these hints: topology order, until learnt better.
  void Reset(size_t size);
  // `previous` is kNoNode at the start of a list. kNoNode when nothing is known.
  uint32_t After(uint32_t previous) const { return previous == kNoNode ? first_ : next_[previous]; }
  void Learn(uint32_t previous, uint32_t id) {
    (previous == kNoNode ? first_ : next_[previous]) = id;
  }

 private:
  uint32_t first_ = kNoNode;
  std::vector<uint32_t> next_;
};

}  // namespace asterism::scheduler::extender
