// File: cli/command.h
//
// Runs one command line of kubectl-asterism: reads it, asks, prints, and says with which code to
// end (arguments.h).
//
//   return RunCommand({"explain", "llama"}, Surroundings{...});
//
// Thread-safety: one at a time. Cost: one or two requests.
#pragma once

#include <ostream>
#include <span>
#include <string>

#include "base/clock.h"
#include "cli/styled_text.h"
#include "kube/kubeconfig.h"

namespace asterism::cli {

// What a process finds around it; tests make their own.
struct Surroundings {
  const base::Clock& clock;
  std::ostream& out;
  std::ostream& error;
  Paper paper;                         // of `out`
  bool live = false;                   // `out` is a terminal
  kube::KubeconfigOptions kubeconfig;  // of the environment
  std::string server;                  // ASTERISM_SERVER
};

int RunCommand(std::span<const std::string> words, const Surroundings& surroundings);

}  // namespace asterism::cli
