// File: scheduler/extender/name_list_scan.h
//
// The short way through a long list of node names: kube-scheduler writes NodeNames last, without
// spaces, mostly in the order of the last time, so the text can be compared with the table's
// fragments as it stands, without an index of its JSON. Whatever looks different in any way is left
// to the parser. Inside scheduler/extender/ only.
//
//   if (std::optional<size_t> begin = ScanNameList(body, table, hints, ids)) {
//     parse(body.substr(0, *begin) + "null}");    // the rest of the request
//   }
//
// Why that is sound: after the found key the text up to its end is one flat array of plain strings
// and one brace. If what stands before is the beginning of valid JSON, the brace can only close the
// root, so the key is a key of the root; and it is exactly then that the shortened text is valid. A
// key that only ends in NodeNames (`x\"NodeNames`) is found out by the parser of the shortened
// text.
//
// Thread-safety: none (hints). Cost: one memcmp a name, 3 ns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "scheduler/extender/node_table.h"

namespace asterism::scheduler::extender {

// Returns where the value of NodeNames begins, with `ids` filled; nullopt when the list must be
// parsed: another form, a name that the table does not have, more than `names_max` names.
std::optional<size_t> ScanNameList(std::string_view body, const NodeTable& table, OrderHints& hints,
                                   size_t names_max, std::vector<uint32_t>& ids);

}  // namespace asterism::scheduler::extender
