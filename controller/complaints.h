// File: controller/complaints.h
//
// Everything that is wrong with a file, told at once: "field: problem: remedy", a line each.
//
//   Complaints complaints;
//   complaints.Add("ports.https", "\"x\" is not a port", "use a whole number from 0 to 65535");
//   RETURN_IF_ERROR(complaints.ToStatus());
//
// Thread-safety: none. Cost: at most kComplaintsMax lines are kept, the rest is counted.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace asterism::controller {

class Complaints {
 public:
  static constexpr size_t kComplaintsMax = 50;

  void Add(std::string_view field, std::string_view problem, std::string_view remedy);
  bool empty() const { return lines_.empty(); }
  // OK when there is none.
  absl::Status ToStatus() const;

 private:
  std::vector<std::string> lines_;
  size_t left_out_ = 0;
};

// The entry of `known` (not empty) that the fewest changed letters lead to; the first of several.
std::string_view NearestName(std::string_view name, const std::vector<std::string_view>& known);
// What `NearestName` measures.
size_t Distance(std::string_view left, std::string_view right);

// A name or value from a file for a message: in quotes, escaped, at most 60 bytes of it.
std::string Shown(std::string_view text);

}  // namespace asterism::controller
