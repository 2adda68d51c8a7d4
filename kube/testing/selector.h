// File: kube/testing/selector.h
//
// Label and field selectors as the API server understands them, over JSON objects.
//
//   ASSIGN_OR_RETURN(const Selector selector, Selector::Parse("app=x,tier in (a,b)", ""));
//   if (selector.Matches(object)) ...
//
// Thread-safety: a value. Cost: linear in the terms.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace asterism::kube::testing {

class Selector {
 public:
  // Labels: a=b, a==b, a!=b, a, !a, a in (b,c), a notin (b,c). Fields: a.b=c, a.b!=c.
  static absl::StatusOr<Selector> Parse(std::string_view labels, std::string_view fields);

  bool Matches(const nlohmann::json& object) const;

 private:
  struct Term {
    std::string key;
    std::vector<std::string> values;  // empty: the key exists
    bool negated = false;
  };
  static absl::StatusOr<Term> ParseTerm(std::string_view text);

  std::vector<Term> labels_;
  std::vector<Term> fields_;
};

}  // namespace asterism::kube::testing
