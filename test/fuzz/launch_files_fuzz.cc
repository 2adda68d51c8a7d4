// Reads any text as the files that asterism-launch looks at: a line of progress, an environment, a
// /proc/PID/stat, a host file.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "launch/host_address.h"
#include "launch/progress_file.h"
#include "launch/rank_watch.h"
#include "launch/remote_shell.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace asterism::launch;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto reading = ParseProgressLine(text).reading) {
    CHECK_THAT(reading->step >= 0, "a negative step");
    CHECK_THAT(reading->tokens_per_second >= 0, "a negative rate");
    CHECK_THAT(std::isfinite(reading->tokens_per_second), "a rate that is not finite");
    CHECK_THAT(std::isfinite(reading->step_time_milliseconds), "a time that is not finite");
  }
  const auto processes = ParseRankProcesses(text);
  CHECK_THAT(ParseRankProcesses(FormatRankProcesses(processes)) == processes, "a rank is lost");
  RankOfEnvironment(text);
  ParseProcessStat(text);
  for (const std::string& host : HostsOf(std::string(text))) {
    static_cast<void>(CheckHost(host));
    CHECK_THAT(host.find_first_of(" \t\n") == std::string::npos, "a host with blanks");
  }
  return 0;
}
