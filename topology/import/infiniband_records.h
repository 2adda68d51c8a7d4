// File: topology/import/infiniband_records.h
//
// Fabric dumps of records with port lines: ibnetdiscover, the database of ibdiagnet (.lst), and the
// netlists of ibsim. One reader, because they differ in blanks, repeated port numbers and ids only.
//
//   ASSIGN_OR_RETURN(Imported imported, ImportInfinibandRecords(name, text));
//
// Grammar (infiniband-diags 44, ibdiagnet 2.9, ibsim 0.10): lines `key=value`, then
//   Switch|Ca|Rt|Hca ports "id" [# "description" ...]
//   [port][(port or guid)] "peer id"[peer port][(guid)] [w=lanes] [# [lid ...] "description" lid N
//   4xHDR]
// with id = S-, H- or R- and a GUID, or a free name in netlists.
//
// Thread-safety: pure. Cost: one pass, about 4 ns a byte.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "topology/import/imported.h"

namespace asterism::topology {

// `head`: the first few KiB.
bool LooksLikeInfinibandRecords(std::string_view head);

absl::StatusOr<Imported> ImportInfinibandRecords(std::string_view name, std::string_view text);

}  // namespace asterism::topology
