// File: topology/import/topo_matrix.h
//
// The matrix of `nvidia-smi topo -m` and of the tools that print the same shape (npu-smi, mx-smi,
// cnmon, mthreads-gmi), with a `-p2p` table behind it when there is one; and `nvidia-smi nvlink
// -s`.
//
//   ASSIGN_OR_RETURN(Imported imported, ImportTopoMatrix(name, text));
//   imported.host->pair(0, 1).links;
//
// Read by tokens, not by columns: headers may be wrapped, quoted, fused ("GPU0GPU1") or behind a
// prompt, texts may be cut. Refused: a row that lost a cell, a matrix that is not symmetric.
//
// Thread-safety: pure. Cost: linear in the text.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "topology/import/imported.h"

namespace asterism::topology {

inline constexpr size_t kMatrixDevicesMax = 512;

bool LooksLikeTopoMatrix(std::string_view head);
absl::StatusOr<Imported> ImportTopoMatrix(std::string_view name, std::string_view text);

bool LooksLikeNvlinkStatus(std::string_view head);
absl::StatusOr<Imported> ImportNvlinkStatus(std::string_view name, std::string_view text);

}  // namespace asterism::topology
