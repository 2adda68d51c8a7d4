#include "scheduler/extender/name_list_scan.h"

#include <cstring>

namespace asterism::scheduler::extender {
namespace {

// True when `text` is a closing brace and nothing else but white space.
bool IsEndOfRoot(std::string_view text) {
  static constexpr std::string_view kSpace = " \t\r\n";
  const size_t brace = text.find_first_not_of(kSpace);
  return brace != std::string_view::npos && text[brace] == '}' &&
         text.find_first_not_of(kSpace, brace + 1) == std::string_view::npos;
}

// The id of the plain string that `text` begins with, and its length with the quotes.
uint32_t FindQuoted(std::string_view text, const NodeTable& table, size_t& length) {
  if (text.empty() || text[0] != '"') {
    return kNoNode;
  }
  const size_t end = text.find('"', 1);
  if (end == std::string_view::npos) {
    return kNoNode;
  }
  length = end + 1;
  const uint32_t id = table.Find(text.substr(1, end - 1));
  // A name that JSON escapes is never equal to its own text.
  return id != kNoNode && table.TokenIs(id, text.substr(0, length)) ? id : kNoNode;
}

}  // namespace

std::optional<size_t> ScanNameList(std::string_view body, const NodeTable& table, OrderHints& hints,
                                   size_t names_max, std::vector<uint32_t>& ids) {
  static constexpr std::string_view kKey = R"("NodeNames":[)";
  ids.clear();
  const void* const key = memmem(body.data(), body.size(), kKey.data(), kKey.size());
  if (key == nullptr) {
    return std::nullopt;
  }
  const size_t begin =
      static_cast<size_t>(static_cast<const char*>(key) - body.data()) + kKey.size() - 1;
  std::string_view rest = body.substr(begin + 1);
  uint32_t previous = kNoNode;
  while (ids.size() < names_max) {
    uint32_t id = hints.After(previous);
    size_t length = 0;
    if (id != kNoNode && table.TokenIs(id, rest)) {
      length = table.Fragment(id).size() - 1;
    } else {
      id = FindQuoted(rest, table, length);
      if (id == kNoNode) {
        return std::nullopt;
      }
      hints.Learn(previous, id);
    }
    ids.push_back(id);
    previous = id;
    if (rest.size() <= length) {
      return std::nullopt;
    }
    const char next = rest[length];
    rest.remove_prefix(length + 1);
    if (next == ',') {
      continue;
    }
    return next == ']' && IsEndOfRoot(rest) ? std::optional<size_t>(begin) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace asterism::scheduler::extender
