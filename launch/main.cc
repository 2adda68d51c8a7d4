// asterism-launch: runs the command of a training pod; see launch/command_line.h.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <variant>
#include <vector>

#include "launch/command_line.h"
#include "launch/copy_self.h"
#include "launch/remote_shell.h"
#include "launch/supervisor.h"

namespace {

using namespace asterism::launch;  // NOLINT: the program is this module

constexpr int kExitUsage = 2;

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "asterism-launch: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const absl::StatusOr<Request> request =
      ParseCommandLine(std::vector<std::string>(argv + 1, argv + argc));
  if (!request.ok()) {
    std::fprintf(stderr, "asterism-launch: %s\n%s", std::string(request.status().message()).c_str(),
                 kUsage);
    return kExitUsage;
  }
  const auto environment = [](const char* name) { return std::getenv(name); };
  return std::visit(Overloaded{
                        [&](const RunCommand& run) -> int {
                          SupervisorSettings settings = SettingsFromEnvironment(environment);
                          settings.version = ASTERISM_VERSION;
                          Supervise(run.command, settings);
                        },
                        [](const CopySelf& copy) {
                          const absl::Status status = CopySelfInto(copy.folder);
                          return status.ok() ? 0 : Fail(status);
                        },
                        [&](const ServeWorker&) {
                          const absl::Status status =
                              ServeRemoteCommands(RemoteSettingsFrom(environment));
                          return status.ok() ? 0 : Fail(status);
                        },
                        [&](const RunRemotely& remote) {
                          if (remote.no_input) {
                            dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
                          }
                          const absl::StatusOr<int> code = RunOnHost(
                              remote.host, remote.command, RemoteSettingsFrom(environment));
                          return code.ok() ? *code : Fail(code.status());
                        },
                        [](const ShowVersion&) {
                          std::puts("asterism-launch " ASTERISM_VERSION);
                          return 0;
                        },
                        [](const ShowUsage&) {
                          std::fputs(kUsage, stdout);
                          return 0;
                        },
                    },
                    *request);
}
