// File: scheduler/extender/request_reader.h
//
// Reads the requests of kube-scheduler (k8s.io/kube-scheduler extender/v1): ExtenderArgs for filter
// and prioritize, ExtenderPreemptionArgs for preempt. Keys are Go field names, taken in any case
// and any order; null and absent are the same.
//
//   RequestReader reader;
//   reader.Use(table);
//   RETURN_IF_ERROR(reader.ReadNodes(body, Verb::kFilter, question));
//
// Bounds: the parser's nesting, kNamesMax names, and the size of the body, which the caller limits.
//
// Thread-safety: none; one reader a call at a time. Cost: 12,800 names about 50 us.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/extender/node_table.h"
#include "scheduler/extender/pod_question.h"

namespace asterism::scheduler::extender {

inline constexpr size_t kNamesMax = 200'000;

// Nodes in the order of the request.
struct NodeList {
  std::vector<uint32_t> ids;              // kNoNode for a name that the table does not have
  std::vector<std::string_view> unknown;  // those names, in order
};

// kNone: neither NodeNames nor Nodes was given.
enum class NodesForm { kNone, kNames, kObjects };

struct NodesRequest {
  PodQuestion pod;
  NodesForm form = NodesForm::kNone;
  NodeList nodes;
};

struct VictimsOfNode {
  std::string_view node;
  std::vector<std::string_view> uids;
  int64_t budget_violations = 0;  // NumPDBViolations
};

struct PreemptRequest {
  PodQuestion pod;
  std::vector<VictimsOfNode> nodes;
};

enum class Verb { kFilter, kPrioritize, kPreempt };

class RequestReader {
 public:
  // The table that names are looked up in, until the next one. Keeps it alive.
  void Use(std::shared_ptr<const NodeTable> table);

  // `body` has simdjson's 64 readable bytes behind it. The request's texts live until the next
  // read.
  absl::Status ReadNodes(std::string_view body, Verb verb, NodesRequest& request);
  // The same without the short way for long lists (name_list_scan.h), to compare with.
  absl::Status ParseNodes(std::string_view body, Verb verb, NodesRequest& request);
  absl::Status ReadPreempt(std::string_view body, PreemptRequest& request);

  const NodeTable& table() const { return *table_; }

 private:
  OrderHints& HintsOf(Verb verb);
  absl::Status ReadFields(std::string_view body, OrderHints& hints, NodesRequest& request);
  absl::Status Open(std::string_view body, ondemand::document& document, ondemand::object& root);
  absl::Status AddName(ondemand::value& value, OrderHints& hints, uint32_t& previous,
                       NodeList& nodes);
  absl::Status ReadNames(ondemand::value& value, OrderHints& hints, NodesRequest& request);
  absl::Status ReadNodeObjects(ondemand::value& value, OrderHints& hints, NodesRequest& request);
  absl::Status ReadVictims(ondemand::value& value, bool whole_pods, PreemptRequest& request);

  ondemand::parser parser_;
  size_t parser_bytes_ = 0;
  std::shared_ptr<const NodeTable> table_;
  OrderHints filter_hints_;
  OrderHints prioritize_hints_;
  std::string head_;                  // a request without its list of names, and padding
  std::vector<uint32_t> listed_ids_;  // that list
  bool names_are_null_ = false;       // of the request read last
};

}  // namespace asterism::scheduler::extender
