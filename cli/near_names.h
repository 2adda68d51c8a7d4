// File: cli/near_names.h
//
// "Did you mean": the known names that a mistyped one is near to.
//
//   NearNames("topolgy", {"topology", "top"})   // {"topology"}
//   DidYouMean(...)                             // ": did you mean \"topology\"?", or empty
//
// Thread-safety: pure. Cost: O(known x length squared); at most 10,000 names are looked at.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace asterism::cli {

// At most three, nearest first, then by name.
std::vector<std::string> NearNames(std::string_view name, const std::vector<std::string>& known);
std::string DidYouMean(std::string_view name, const std::vector<std::string>& known);

}  // namespace asterism::cli
