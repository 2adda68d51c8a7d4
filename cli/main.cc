// kubectl-asterism: kubectl finds it on PATH and runs it as `kubectl asterism`.
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/live_screen.h"
#include "kube/kubeconfig.h"

namespace {

std::string_view Environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before any thread
  return value == nullptr ? "" : value;
}

}  // namespace

int main(int argc, char** argv) {
  namespace cli = asterism::cli;
  // A reader that goes (`| head`) shows as a failed write below.
  std::signal(SIGPIPE, SIG_IGN);
  asterism::base::SetUpLog(asterism::base::LogFormat::kText, asterism::base::LogLevel::kError);
  const bool terminal = cli::StandardOutputIsTerminal();
  // no-color.org: set and not empty means no.
  const bool colour = terminal && Environment("NO_COLOR").empty() && Environment("TERM") != "dumb";
  asterism::base::SystemClock clock;
  const cli::Surroundings surroundings{
      .clock = clock,
      .out = std::cout,
      .error = std::cerr,
      .paper = {.width = terminal ? cli::SizeOfTerminal().columns : 0, .colour = colour},
      .live = terminal,
      .kubeconfig = asterism::kube::KubeconfigOptions::FromEnvironment(),
      .server = std::string(Environment("ASTERISM_SERVER"))};
  const std::vector<std::string> words(argv + 1, argv + argc);
  const int code = cli::RunCommand(words, surroundings);
  std::cout.flush();
  return std::cout.good() ? code : cli::kExitError;
}
