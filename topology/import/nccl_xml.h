// File: topology/import/nccl_xml.h
//
// Topology files of NCCL and RCCL (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE): PCI trees below CPUs, with
// GPUs, network cards and links between GPUs. A file may be an overlay that knows a part only.
//
//   ASSIGN_OR_RETURN(Imported imported, ImportNcclXml(name, text));
//
// Format: NCCL 2.30, src/graph/xml.h. `graphs` files are no topology, and the outcome says so.
//
// Thread-safety: pure. Cost: one pass of the text; quadratic in GPUs x cards only.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "topology/import/imported.h"
#include "topology/import/xml_tree.h"

namespace asterism::topology {

inline constexpr size_t kHostDevicesMax = 1024;

absl::StatusOr<Imported> ImportNcclXml(std::string_view name, const XmlElement& root);

// XML of hwloc (lstopo): counts of objects, distances, PCI devices.
absl::StatusOr<Imported> ImportHwlocXml(std::string_view name, const XmlElement& root);
// The text that `lstopo -v` prints.
bool LooksLikeHwlocConsole(std::string_view head);
absl::StatusOr<Imported> ImportHwlocConsole(std::string_view name, std::string_view text);

}  // namespace asterism::topology
