// File: topology/import/infiniband_ports.h
//
// Fabric dumps of one line a port: `ibnetdiscover -p`, and iblinkinfo with and without -l.
//
//   ASSIGN_OR_RETURN(Imported imported, ImportInfinibandPorts(name, text));
//
// Grammar (infiniband-diags 44):
//   CA|SW lid port 0xguid 4x HDR [- CA|SW lid port 0xguid] ( 'name' - 'name' )
//   Switch|CA: [0xguid] name:            then, indented,
//     [0xguid] lid port[..] ==( 4X 53.125 Gbps Active/ LinkUp)==> [0xguid] lid port[..] "name" ( )
// Names may hold blanks and semicolons. Peers that are known by lid only are joined at the end.
//
// Thread-safety: pure. Cost: one pass.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "topology/import/imported.h"

namespace asterism::topology {

bool LooksLikeInfinibandPorts(std::string_view head);
absl::StatusOr<Imported> ImportInfinibandPorts(std::string_view name, std::string_view text);

bool LooksLikeLinkInfo(std::string_view head);
absl::StatusOr<Imported> ImportLinkInfo(std::string_view name, std::string_view text);

}  // namespace asterism::topology
