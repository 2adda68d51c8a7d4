// File: cli/completion.h
//
// Scripts that complete words in a shell, from the table of arguments.h.
//
//   std::optional<std::string> script = CompletionScript("bash");
//
// They complete the program kubectl-asterism; how kubectl itself is taught stands in
// docs/kubectl-asterism.md.
//
// Thread-safety: pure. Cost: a few kilobytes of text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace asterism::cli {

// For bash, zsh and fish; nothing for another shell.
std::optional<std::string> CompletionScript(std::string_view shell);

}  // namespace asterism::cli
