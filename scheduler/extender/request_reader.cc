#include "scheduler/extender/request_reader.h"

#include <optional>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "scheduler/extender/name_list_scan.h"

namespace asterism::scheduler::extender {
namespace {

// A parser keeps about six times the longest text that it has seen.
constexpr size_t kKeptParserBytes = 2 << 20;

absl::Status TooMany(std::string_view path) {
  return absl::InvalidArgumentError(fmt::format("{} has more than {} entries", path, kNamesMax));
}

absl::Status AfterDocument(ondemand::document& document) {
  // simdjson says "out of bounds" for the place behind the last token.
  return document.current_location().error() == simdjson::OUT_OF_BOUNDS
             ? absl::OkStatus()
             : absl::InvalidArgumentError("there is text behind the JSON object");
}

}  // namespace

void RequestReader::Use(std::shared_ptr<const NodeTable> table) {
  if (table == table_) {
    return;
  }
  table_ = std::move(table);
  filter_hints_.Reset(table_->size());
  prioritize_hints_.Reset(table_->size());
}

absl::Status RequestReader::Open(std::string_view body, ondemand::document& document,
                                 ondemand::object& root) {
  if (parser_bytes_ > kKeptParserBytes && body.size() <= kKeptParserBytes) {
    parser_ = ondemand::parser();
    parser_bytes_ = 0;
  }
  parser_bytes_ = std::max(parser_bytes_, body.size());
  if (const simdjson::error_code error =
          parser_.iterate(body.data(), body.size(), body.size() + simdjson::SIMDJSON_PADDING)
              .get(document)) {
    return BadJson("the start", error);
  }
  if (const simdjson::error_code error = document.get_object().get(root)) {
    return error == simdjson::INCORRECT_TYPE ? WrongType("the request", "a JSON object")
                                             : BadJson("the start", error);
  }
  return absl::OkStatus();
}

OrderHints& RequestReader::HintsOf(Verb verb) {
  return verb == Verb::kPrioritize ? prioritize_hints_ : filter_hints_;
}

absl::Status RequestReader::ReadNodes(std::string_view body, Verb verb, NodesRequest& request) {
  OrderHints& hints = HintsOf(verb);
  const std::optional<size_t> list = ScanNameList(body, *table_, hints, kNamesMax, listed_ids_);
  if (!list.has_value()) {
    return ReadFields(body, hints, request);
  }
  head_.assign(body.substr(0, *list));
  head_ += "null}";
  const size_t size = head_.size();
  head_.append(simdjson::SIMDJSON_PADDING, ' ');
  const absl::Status status = ReadFields(std::string_view(head_).substr(0, size), hints, request);
  if (status.ok() && !names_are_null_) {
    return ReadFields(body, hints, request);  // the key was not what it looked like
  }
  request.form = NodesForm::kNames;
  request.nodes.ids.swap(listed_ids_);
  request.nodes.unknown.clear();
  return status;
}

absl::Status RequestReader::ParseNodes(std::string_view body, Verb verb, NodesRequest& request) {
  return ReadFields(body, HintsOf(verb), request);
}

absl::Status RequestReader::ReadFields(std::string_view body, OrderHints& hints,
                                       NodesRequest& request) {
  request.pod = PodQuestion();
  request.form = NodesForm::kNone;
  request.nodes.ids.clear();
  request.nodes.unknown.clear();
  names_are_null_ = false;
  ondemand::document document;
  ondemand::object root;
  RETURN_IF_ERROR(Open(body, document, root));
  const auto read_field = [&](std::string_view key, ondemand::value& field) -> absl::Status {
    if (SameKey(key, "Pod")) {
      return ReadPod(field, request.pod);
    }
    if (SameKey(key, "NodeNames")) {
      return ReadNames(field, hints, request);
    }
    if (SameKey(key, "Nodes") && request.form != NodesForm::kNames) {
      return ReadNodeObjects(field, hints, request);
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ForEachField(root, "the request", read_field));
  RETURN_IF_ERROR(AfterDocument(document));
  if (request.pod.name.empty()) {
    return absl::InvalidArgumentError(
        "Pod.metadata.name is missing: the request needs Pod and NodeNames");
  }
  return absl::OkStatus();
}

absl::Status RequestReader::AddName(ondemand::value& value, OrderHints& hints, uint32_t& previous,
                                    NodeList& nodes) {
  const uint32_t expected = hints.After(previous);
  if (expected != kNoNode && table_->TokenIs(expected, value.raw_json_token())) {
    // Consumed as a string, not skipped: skipping is more lenient about what follows.
    if (const simdjson::error_code error = value.get_raw_json_string().error()) {
      return BadJson("NodeNames", error);
    }
    nodes.ids.push_back(expected);
    previous = expected;
    return absl::OkStatus();
  }
  std::string_view name;
  if (const simdjson::error_code error = value.get_string().get(name)) {
    return error == simdjson::INCORRECT_TYPE ? WrongType("a name in NodeNames", "a string")
                                             : BadJson("NodeNames", error);
  }
  const uint32_t id = table_->Find(name);
  nodes.ids.push_back(id);
  if (id == kNoNode) {
    nodes.unknown.push_back(name);
    return absl::OkStatus();
  }
  hints.Learn(previous, id);
  previous = id;
  return absl::OkStatus();
}

absl::Status RequestReader::ReadNames(ondemand::value& value, OrderHints& hints,
                                      NodesRequest& request) {
  bool null = false;
  if (const simdjson::error_code error = value.is_null().get(null)) {
    return BadJson("NodeNames", error);
  }
  names_are_null_ = null;
  if (null) {
    return absl::OkStatus();  // Nodes may stand in for it
  }
  request.form = NodesForm::kNames;
  request.nodes.ids.clear();
  request.nodes.unknown.clear();
  uint32_t previous = kNoNode;
  bool present = false;
  return ForEachElement(value, "NodeNames", present, [&](ondemand::value& name) -> absl::Status {
    return request.nodes.ids.size() < kNamesMax ? AddName(name, hints, previous, request.nodes)
                                                : TooMany("NodeNames");
  });
}

absl::Status RequestReader::ReadNodeObjects(ondemand::value& value, OrderHints& hints,
                                            NodesRequest& request) {
  NodeList& nodes = request.nodes;
  uint32_t previous = kNoNode;
  const auto read_metadata = [&](std::string_view key, ondemand::value& field) {
    return key == "name" ? AddName(field, hints, previous, nodes) : absl::OkStatus();
  };
  const auto read_node = [&](std::string_view key, ondemand::value& field) {
    return key == "metadata" ? ForEachField(field, "Nodes.items.metadata", read_metadata)
                             : absl::OkStatus();
  };
  const auto read_item = [&](ondemand::value& item) {
    const size_t before = nodes.ids.size();
    if (before >= kNamesMax) {
      return TooMany("Nodes.items");
    }
    RETURN_IF_ERROR(ForEachField(item, "Nodes.items", read_node));
    return nodes.ids.size() == before + 1
               ? absl::OkStatus()
               : absl::InvalidArgumentError("Nodes.items: a node needs one metadata.name");
  };
  return ForEachField(value, "Nodes", [&](std::string_view key, ondemand::value& items) {
    if (!SameKey(key, "items")) {
      return absl::OkStatus();
    }
    request.form = NodesForm::kObjects;
    nodes.ids.clear();
    nodes.unknown.clear();
    previous = kNoNode;
    bool present = false;
    return ForEachElement(items, "Nodes.items", present, read_item);
  });
}

absl::Status RequestReader::ReadPreempt(std::string_view body, PreemptRequest& request) {
  request.pod = PodQuestion();
  request.nodes.clear();
  bool meta_form = false;
  const auto read_field = [&](std::string_view key, ondemand::value& field) -> absl::Status {
    if (SameKey(key, "Pod")) {
      return ReadPod(field, request.pod);
    }
    if (SameKey(key, "NodeNameToMetaVictims")) {
      PreemptRequest found;
      RETURN_IF_ERROR(ReadVictims(field, /*whole_pods=*/false, found));
      if (!found.nodes.empty()) {
        meta_form = true;
        request.nodes = std::move(found.nodes);
      }
      return absl::OkStatus();
    }
    if (SameKey(key, "NodeNameToVictims") && !meta_form) {
      request.nodes.clear();
      return ReadVictims(field, /*whole_pods=*/true, request);
    }
    return absl::OkStatus();
  };
  ondemand::document document;
  ondemand::object root;
  RETURN_IF_ERROR(Open(body, document, root));
  RETURN_IF_ERROR(ForEachField(root, "the request", read_field));
  return AfterDocument(document);
}

absl::Status RequestReader::ReadVictims(ondemand::value& value, bool whole_pods,
                                        PreemptRequest& request) {
  const std::string_view path = whole_pods ? "NodeNameToVictims" : "NodeNameToMetaVictims";
  size_t victims = 0;
  const auto read_pod = [&](ondemand::value& element, VictimsOfNode& node) -> absl::Status {
    if (++victims > kNamesMax) {
      return TooMany(path);
    }
    std::string_view& uid = node.uids.emplace_back();
    if (whole_pods) {
      return ReadPodUid(element, path, uid);
    }
    return ForEachField(element, path, [&](std::string_view key, ondemand::value& text) {
      std::optional<std::string_view> found;
      if (SameKey(key, "UID")) {
        RETURN_IF_ERROR(ReadText(text, path, found));
        uid = found.value_or(std::string_view());
      }
      return absl::OkStatus();
    });
  };
  return ForEachField(value, path, [&](std::string_view name, ondemand::value& field) {
    if (request.nodes.size() >= kNamesMax) {
      return TooMany(path);
    }
    VictimsOfNode& node = request.nodes.emplace_back();
    node.node = name;
    return ForEachField(
        field, path, [&](std::string_view key, ondemand::value& part) -> absl::Status {
          if (SameKey(key, "Pods")) {
            node.uids.clear();
            bool present = false;
            return ForEachElement(part, path, present, [&](ondemand::value& element) {
              return read_pod(element, node);
            });
          }
          if (SameKey(key, "NumPDBViolations")) {
            bool null = false;
            if (part.is_null().get(null) != simdjson::SUCCESS ||
                (!null && part.get_int64().get(node.budget_violations) != simdjson::SUCCESS)) {
              return WrongType("NumPDBViolations", "a whole number");
            }
          }
          return absl::OkStatus();
        });
  });
}

}  // namespace asterism::scheduler::extender
