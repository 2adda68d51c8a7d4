// File: topology/import/import_text.h
//
// Reads any text that this project knows how to read as a topology: finds its format by what it
// holds, not by its name, and hands it to the importer of that format.
//
//   const absl::StatusOr<Imported> imported = ImportText("fabric.txt", text);
//
// Errors name the text, the line and every reason; a text of no known format is one of them, with
// the list of formats. Garbage costs one pass. At most kImportBytesMax bytes.
//
// Thread-safety: pure. Cost: linear; about 4 ns a byte for fabric dumps.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "topology/import/imported.h"

namespace asterism::topology {

inline constexpr size_t kImportBytesMax = size_t{512} << 20;

absl::StatusOr<Imported> ImportText(std::string_view name, std::string_view text);

// The bytes of a gzip file, or `bytes` as they are when they are none. At most kImportBytesMax.
absl::StatusOr<std::string> Decompressed(std::string bytes);

// The summary with what follows from the parts (status, counts of the analysed fabric). Owners from
// other texts name hosts that the text itself does not.
nlohmann::ordered_json SummaryOf(const Imported& imported, const GuidOwners& owners);

}  // namespace asterism::topology
