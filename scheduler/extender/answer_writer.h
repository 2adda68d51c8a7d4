// File: scheduler/extender/answer_writer.h
//
// Writes the answers of the extender protocol. Lists of nodes are copied from the table's ready
// fragments, so that 12,800 entries cost a few nanoseconds each. Inside scheduler/extender/ only.
//
//   FilterAnswer out(table, request, answer);
//   out.WritePassed([&](size_t i) { return verdicts[i] == Verdict::kFits; });
//
// Thread-safety: none. Cost: 3 to 4 ns an entry.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scheduler/extender/request_reader.h"

namespace asterism::scheduler::extender {

struct NodeReason {
  std::string_view node;
  std::string reason;
};

// `passed[i]` belongs to request.nodes.ids[i]. Writes NodeNames, or Nodes with bare names when the
// request came with Nodes.
void WriteFilterAnswer(const NodeTable& table, const NodesRequest& request,
                       std::span<const uint8_t> passed, std::span<const NodeReason> reasons,
                       std::string& answer);

// `scores[i]` in 0..10 belongs to request.nodes.ids[i].
void WritePriorities(const NodeTable& table, const NodesRequest& request,
                     std::span<const uint8_t> scores, std::string& answer);

// `kept[i]` belongs to request.nodes[i].
void WritePreemptAnswer(const PreemptRequest& request, std::span<const uint8_t> kept,
                        std::string& answer);

// {"Error":"..."} with the other fields of a filter answer null.
void WriteFilterError(std::string_view message, std::string& answer);
// For verbs without an Error field; the code is not 200 then.
void WritePlainError(std::string_view message, std::string& answer);

}  // namespace asterism::scheduler::extender
