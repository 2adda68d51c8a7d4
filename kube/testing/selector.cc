#include "kube/testing/selector.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace asterism::kube::testing {
namespace {

std::string Trim(std::string_view text) {
  return std::string(absl::StripAsciiWhitespace(base::ToAbsl(text)));
}

// At commas outside parentheses.
std::vector<std::string> SplitTerms(std::string_view text) {
  std::vector<std::string> terms;
  std::string term;
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      terms.push_back(Trim(term));
      term.clear();
    } else {
      term += c;
    }
  }
  terms.push_back(Trim(term));
  std::erase(terms, "");
  return terms;
}

// The text at a dotted path; empty when absent.
std::string FieldText(const nlohmann::json& object, const std::string& path) {
  const nlohmann::json* node = &object;
  for (const absl::string_view part : absl::StrSplit(path, '.')) {
    const std::string key(part);
    if (!node->is_object() || !node->contains(key)) {
      return "";
    }
    node = &(*node)[key];
  }
  return node->is_string() ? node->get<std::string>() : node->dump();
}

}  // namespace

absl::StatusOr<Selector::Term> Selector::ParseTerm(std::string_view text) {
  Term term;
  if (const size_t open = text.find('('); open != std::string_view::npos) {
    const size_t close = text.find(')', open);
    const std::vector<std::string> words =
        absl::StrSplit(Trim(text.substr(0, open)), ' ', absl::SkipEmpty());
    if (close == std::string_view::npos || words.size() != 2 ||
        (words[1] != "in" && words[1] != "notin")) {
      return absl::InvalidArgumentError(fmt::format("bad selector: {}", text));
    }
    term.key = words[0];
    term.negated = words[1] == "notin";
    for (const std::string& value : SplitTerms(text.substr(open + 1, close - open - 1))) {
      term.values.push_back(value);
    }
    return term;
  }
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    term.negated = text.starts_with('!');
    term.key = Trim(text.substr(term.negated ? 1 : 0));
    return term;
  }
  term.negated = equals > 0 && text[equals - 1] == '!';
  term.key = Trim(text.substr(0, equals - (term.negated ? 1 : 0)));
  std::string_view value = text.substr(equals + 1);
  if (value.starts_with('=')) {
    value.remove_prefix(1);
  }
  term.values.push_back(Trim(value));
  return term;
}

absl::StatusOr<Selector> Selector::Parse(std::string_view labels, std::string_view fields) {
  Selector selector;
  for (const std::string& text : SplitTerms(labels)) {
    ASSIGN_OR_RETURN(Term term, ParseTerm(text));
    selector.labels_.push_back(std::move(term));
  }
  for (const std::string& text : SplitTerms(fields)) {
    ASSIGN_OR_RETURN(Term term, ParseTerm(text));
    selector.fields_.push_back(std::move(term));
  }
  return selector;
}

bool Selector::Matches(const nlohmann::json& object) const {
  for (const Term& term : fields_) {
    const std::string value = FieldText(object, term.key);
    const bool equal =
        std::find(term.values.begin(), term.values.end(), value) != term.values.end();
    if (equal == term.negated) {
      return false;
    }
  }
  static const nlohmann::json kNone = nlohmann::json::object();
  const nlohmann::json labels = object.value("metadata", kNone).value("labels", kNone);
  for (const Term& term : labels_) {
    const auto found = labels.find(term.key);
    const bool holds =
        found != labels.end() &&
        (term.values.empty() || std::find(term.values.begin(), term.values.end(),
                                          found->get<std::string>()) != term.values.end());
    if (holds == term.negated) {
      return false;
    }
  }
  return true;
}

}  // namespace asterism::kube::testing
