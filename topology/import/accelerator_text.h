// File: topology/import/accelerator_text.h
//
// Texts about accelerators other than matrices: the KFD tree of AMD GPUs as one text (a line
// `=== path` before each file), and `rocm-smi --showtoponuma`.
//
//   ASSIGN_OR_RETURN(Imported imported, ImportKfdTree(name, text));
//
// Thread-safety: pure. Cost: one pass.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "topology/import/imported.h"

namespace asterism::topology {

bool LooksLikeKfdTree(std::string_view head);
absl::StatusOr<Imported> ImportKfdTree(std::string_view name, std::string_view text);

bool LooksLikeRocmNuma(std::string_view head);
absl::StatusOr<Imported> ImportRocmNuma(std::string_view name, std::string_view text);

}  // namespace asterism::topology
