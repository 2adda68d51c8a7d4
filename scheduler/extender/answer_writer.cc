#include "scheduler/extender/answer_writer.h"

#include <algorithm>
#include <cstring>

#include "scheduler/extender/json_text.h"

namespace asterism::scheduler::extender {
namespace {

// Room for a batch of entries at the end of a string, written through a pointer.
class Room {
 public:
  Room(std::string& out, size_t size) : out_(out), begin_(out.size()) {
    out_.resize(begin_ + size);
    at_ = out_.data() + begin_;
  }
  ~Room() { out_.resize(static_cast<size_t>(at_ - out_.data())); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  void Put(std::string_view text) {
    std::memcpy(at_, text.data(), text.size());
    at_ += text.size();
  }

 private:
  std::string& out_;
  const size_t begin_;
  char* at_;
};

// Calls put(room, fragment, i) for each entry of the request that is known, batch by batch, and
// put_unknown(name, i) for the others. A batch bounds the room that is asked for at once.
template <typename Put, typename PutUnknown>
void ForEachEntry(const NodeTable& table, const NodesRequest& request, size_t extra,
                  std::string& out, Put put, PutUnknown put_unknown) {
  constexpr size_t kBatch = 1024;
  const std::vector<uint32_t>& ids = request.nodes.ids;
  const size_t entry_max = table.longest_fragment() + extra;
  size_t unknown = 0;
  for (size_t i = 0; i < ids.size();) {
    if (ids[i] == kNoNode) {
      put_unknown(request.nodes.unknown[unknown++], i);
      ++i;
      continue;
    }
    const size_t end = std::min(ids.size(), i + kBatch);
    Room room(out, (end - i) * entry_max);
    for (; i < end && ids[i] != kNoNode; ++i) {
      put(room, table.Fragment(ids[i]), i);
    }
  }
}

void DropLastComma(std::string& out) {
  if (out.back() == ',') {
    out.pop_back();
  }
}

void WriteReasons(std::span<const NodeReason> reasons, std::string& answer) {
  answer += '{';
  for (const NodeReason& entry : reasons) {
    AppendJsonText(entry.node, answer);
    answer += ':';
    AppendJsonText(entry.reason, answer);
    answer += ',';
  }
  DropLastComma(answer);
  answer += '}';
}

void WriteNodeNames(const NodeTable& table, const NodesRequest& request,
                    std::span<const uint8_t> passed, std::string& answer) {
  answer += R"("Nodes":null,"NodeNames":[)";
  ForEachEntry(
      table, request, 0, answer,
      [&](Room& room, std::string_view fragment, size_t i) {
        if (passed[i] != 0) {
          room.Put(fragment);
        }
      },
      [&](std::string_view name, size_t i) {
        if (passed[i] != 0) {
          AppendJsonText(name, answer);
          answer += ',';
        }
      });
  DropLastComma(answer);
  answer += ']';
}

// kube-scheduler reads only the names of the objects that it gets back.
void WriteNodeObjects(const NodeTable& table, const NodesRequest& request,
                      std::span<const uint8_t> passed, std::string& answer) {
  answer += R"("Nodes":{"metadata":{},"items":[)";
  size_t unknown = 0;
  for (size_t i = 0; i < request.nodes.ids.size(); ++i) {
    const uint32_t id = request.nodes.ids[i];
    const std::string_view name =
        id == kNoNode ? request.nodes.unknown[unknown++] : std::string_view();
    if (passed[i] == 0) {
      continue;
    }
    answer += R"({"metadata":{"name":)";
    if (id == kNoNode) {
      AppendJsonText(name, answer);
    } else {
      answer += table.Fragment(id);
      answer.pop_back();
    }
    answer += "}},";
  }
  DropLastComma(answer);
  answer += R"(]},"NodeNames":null)";
}

}  // namespace

void WriteFilterAnswer(const NodeTable& table, const NodesRequest& request,
                       std::span<const uint8_t> passed, std::span<const NodeReason> reasons,
                       std::string& answer) {
  answer += '{';
  if (request.form == NodesForm::kObjects) {
    WriteNodeObjects(table, request, passed, answer);
  } else {
    WriteNodeNames(table, request, passed, answer);
  }
  answer += R"(,"FailedNodes":{},"FailedAndUnresolvableNodes":)";
  WriteReasons(reasons, answer);
  answer += R"(,"Error":""})";
}

void WritePriorities(const NodeTable& table, const NodesRequest& request,
                     std::span<const uint8_t> scores, std::string& answer) {
  static constexpr std::string_view kHost = R"({"Host":)";
  static constexpr std::string_view kScore = R"("Score":)";  // the comma ends the fragment
  static constexpr std::string_view kDigits[] = {"0},", "1},", "2},", "3},", "4},", "5},",
                                                 "6},", "7},", "8},", "9},", "10},"};
  answer += '[';
  ForEachEntry(
      table, request, kHost.size() + kScore.size() + kDigits[10].size(), answer,
      [&](Room& room, std::string_view fragment, size_t i) {
        room.Put(kHost);
        room.Put(fragment);
        room.Put(kScore);
        room.Put(kDigits[scores[i]]);
      },
      [&](std::string_view name, size_t i) {
        answer += kHost;
        AppendJsonText(name, answer);
        answer += ',';
        answer += kScore;
        answer += kDigits[scores[i]];
      });
  DropLastComma(answer);
  answer += ']';
}

void WritePreemptAnswer(const PreemptRequest& request, std::span<const uint8_t> kept,
                        std::string& answer) {
  answer += R"({"NodeNameToMetaVictims":{)";
  for (size_t i = 0; i < request.nodes.size(); ++i) {
    if (kept[i] == 0) {
      continue;
    }
    const VictimsOfNode& node = request.nodes[i];
    AppendJsonText(node.node, answer);
    answer += R"(:{"Pods":[)";
    for (const std::string_view uid : node.uids) {
      answer += R"({"UID":)";
      AppendJsonText(uid, answer);
      answer += "},";
    }
    DropLastComma(answer);
    answer += R"(],"NumPDBViolations":)";
    AppendJsonNumber(node.budget_violations, answer);
    answer += "},";
  }
  DropLastComma(answer);
  answer += "}}";
}

void WriteFilterError(std::string_view message, std::string& answer) {
  answer +=
      R"({"Nodes":null,"NodeNames":null,"FailedNodes":null,"FailedAndUnresolvableNodes":null,"Error":)";
  AppendJsonText(message, answer);
  answer += '}';
}

void WritePlainError(std::string_view message, std::string& answer) {
  answer += R"({"Error":)";
  AppendJsonText(message, answer);
  answer += '}';
}

}  // namespace asterism::scheduler::extender
