// File: topology/import/doctor.h
//
// Examines texts about a cluster together: what each says, what is wrong in it, and where two of
// them disagree. Lists of GUIDs among them name hosts that the others do not.
//
//   std::vector<ExaminedText> texts = {{"fabric.txt", bytes}};
//   const Diagnosis diagnosis = Examine(texts);
//   diagnosis.findings;   // empty: clean
//
// Thread-safety: pure. Cost: that of the imports, plus one analysis a fabric.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "topology/finding.h"
#include "topology/import/imported.h"

namespace asterism::topology {

struct TextOfCluster {
  std::string name;
  absl::StatusOr<std::string> bytes;  // an error: it could not be read; may be gzip
};

struct ExaminedText {
  std::string name;
  std::string error;               // why it cannot be read; empty when it was
  nlohmann::ordered_json summary;  // of import_text.h
};

struct SourcedFinding {
  Finding finding;
  std::string source;  // the text; several: separated by ", "
};

struct Diagnosis {
  std::vector<ExaminedText> texts;
  std::vector<SourcedFinding> findings;  // by text, then kind
  bool unreadable = false;               // of at least one text
};

Diagnosis Examine(const std::vector<TextOfCluster>& texts);

// {"texts": [...], "findings": [...], "clean": bool}
nlohmann::ordered_json DiagnosisJson(const Diagnosis& diagnosis);

}  // namespace asterism::topology
