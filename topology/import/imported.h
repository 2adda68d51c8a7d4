// File: topology/import/imported.h
//
// What an importer took from a text: the facts in the model's types, a summary for people and
// programs, and notes about what it could not use.
//
//   ASSIGN_OR_RETURN(const Imported imported, ImportText("leafs.txt", text));
//   if (imported.fabric.has_value()) ...
//
// A text that is refused has no Imported: its error names the line and every reason.
//
// Thread-safety: a value. Cost: that of its parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"
#include "topology/declared_tree.h"
#include "topology/fabric.h"
#include "topology/fabric_analysis.h"
#include "topology/finding.h"
#include "topology/host_topology.h"
#include "topology/node_labels.h"

namespace asterism::topology {

// kPartial: what is there was taken, something is missing or damaged. kNotTopology: a known format
// that says nothing about a topology.
enum class Outcome : uint8_t { kOk, kPartial, kNotTopology };

struct ImportNote {
  uint32_t line = 0;  // counted from 1; 0: the whole text
  FindingKind kind = FindingKind::kUnreadablePart;
  std::string object;  // foreign
  std::string text;
};

struct Imported {
  std::string source;       // file name
  std::string_view format;  // "ibnetdiscover"
  Outcome outcome = Outcome::kOk;
  std::vector<ImportNote> notes;

  std::optional<Fabric> fabric;
  std::optional<HostTopology> host;
  std::optional<DeclaredTree> tree;
  std::vector<LabelledNode> nodes;
  GuidOwners owners;
  // Counts and lists of what was read, in the words of the format; SummaryOf completes it.
  nlohmann::ordered_json summary = nlohmann::ordered_json::object();

  void Note(uint32_t line, FindingKind kind, std::string object, std::string text) {
    if (notes.size() < kNotesMax) {
      notes.push_back({line, kind, std::move(object), std::move(text)});
    }
    ++note_count;
  }
  void Damage(uint32_t line, std::string text) {
    outcome = Outcome::kPartial;
    Note(line, FindingKind::kUnreadablePart, source, std::move(text));
  }

  static constexpr size_t kNotesMax = 1000;
  size_t note_count = 0;  // also those beyond kNotesMax
};

}  // namespace asterism::topology
