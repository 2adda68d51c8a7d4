#include "scheduler/extender/answer_writer.h"

#include <array>
#include <cstring>

#include "scheduler/extender/json_text.h"

namespace asterism::scheduler::extender {
namespace {

// At most four bytes that are copied at once.
struct ShortText {
  char text[4];
  uint8_t size;

  std::string_view view() const { return {text, size}; }
};

// Gathers entries in a small buffer that stays in the cache and appends it as a whole: an append
// for each piece, or a resize that writes zeros first, costs more than the entries.
class EntryBuffer {
 public:
  explicit EntryBuffer(std::string& out) : out_(out) {}

  // Writes one entry: `before` and `after` are short, `fragment` comes from a NodeTable.
  template <size_t kBefore, size_t kAfter>
  void Put(const char (&before)[kBefore], std::string_view fragment, const char (&after)[kAfter],
           const ShortText& end) {
    if (fragment.size() > kFragmentPadding) [[unlikely]] {
      PutLong({before, kBefore - 1}, fragment, {after, kAfter - 1}, end.view());
      return;
    }
    if (used_ > buffer_.size() - kEntryMax) {
      Flush();
    }
    // Pieces of fixed size become a few moves; what is copied too much is written over.
    char* at = buffer_.data() + used_;
    std::memcpy(at, before, kBefore - 1);
    at += kBefore - 1;
    std::memcpy(at, fragment.data(), kFragmentPadding / 2);
    std::memcpy(at + kFragmentPadding / 2, fragment.data() + kFragmentPadding / 2,
                kFragmentPadding / 2);
    at += fragment.size();
    std::memcpy(at, after, kAfter - 1);
    at += kAfter - 1;
    std::memcpy(at, end.text, sizeof(end.text));
    used_ = static_cast<size_t>(at - buffer_.data()) + end.size;
  }
  void Flush() {
    out_.append(buffer_.data(), used_);
    used_ = 0;
  }

 private:
  static constexpr size_t kEntryMax = 2 * kFragmentPadding;

  void PutLong(std::string_view before, std::string_view fragment, std::string_view after,
               std::string_view end) {
    Flush();
    out_ += before;
    out_ += fragment;
    out_ += after;
    out_ += end;
  }

  std::string& out_;
  size_t used_ = 0;
  std::array<char, 16 << 10> buffer_;
};

// Calls put(buffer, fragment, i) for each entry of the request that the table has, and
// put_unknown(name, i) for the others, which writes to `out`.
template <typename Put, typename PutUnknown>
void ForEachEntry(const NodeTable& table, const NodesRequest& request, std::string& out, Put put,
                  PutUnknown put_unknown) {
  const std::vector<uint32_t>& ids = request.nodes.ids;
  EntryBuffer buffer(out);
  size_t unknown = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != kNoNode) {
      put(buffer, table.Fragment(ids[i]), i);
      continue;
    }
    buffer.Flush();
    put_unknown(request.nodes.unknown[unknown++], i);
  }
  buffer.Flush();
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
      table, request, answer,
      [&](EntryBuffer& buffer, std::string_view fragment, size_t i) {
        if (passed[i] != 0) {
          buffer.Put("", fragment, "", ShortText{{}, 0});
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
  static constexpr char kHost[] = R"({"Host":)";
  static constexpr char kScore[] = R"("Score":)";  // the comma before it ends the fragment
  static constexpr ShortText kDigits[] = {
      {{'0', '}', ','}, 3}, {{'1', '}', ','}, 3}, {{'2', '}', ','}, 3},     {{'3', '}', ','}, 3},
      {{'4', '}', ','}, 3}, {{'5', '}', ','}, 3}, {{'6', '}', ','}, 3},     {{'7', '}', ','}, 3},
      {{'8', '}', ','}, 3}, {{'9', '}', ','}, 3}, {{'1', '0', '}', ','}, 4}};
  answer += '[';
  ForEachEntry(
      table, request, answer,
      [&](EntryBuffer& buffer, std::string_view fragment, size_t i) {
        buffer.Put(kHost, fragment, kScore, kDigits[scores[i]]);
      },
      [&](std::string_view name, size_t i) {
        answer += kHost;
        AppendJsonText(name, answer);
        answer += ',';
        answer += kScore;
        answer += kDigits[scores[i]].view();
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
