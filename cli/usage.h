// File: cli/usage.h
//
// Help texts, from the table of arguments.h.
//
//   std::cout << UsageText();            // all verbs
//   std::cout << UsageText(Verb::kTop);  // one
//
// Thread-safety: pure. Cost: a few kilobytes of text.
#pragma once

#include <string>

#include "cli/arguments.h"

namespace asterism::cli {

std::string UsageText();
std::string UsageText(Verb verb);

}  // namespace asterism::cli
