#include "launch/command_line.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Kind>
Kind Parsed(const std::vector<std::string>& arguments) {
  const absl::StatusOr<Request> request = ParseCommandLine(arguments);
  EXPECT_TRUE(request.ok()) << request.status();
  EXPECT_TRUE(std::holds_alternative<Kind>(*request));
  return std::get<Kind>(*request);
}

TEST(CommandLine, RunsWhatStandsThere) {
  EXPECT_THAT(Parsed<RunCommand>({"torchrun", "--nproc", "8", "train.py"}).command,
              ElementsAre("torchrun", "--nproc", "8", "train.py"));
  EXPECT_THAT(Parsed<RunCommand>({"--", "copy", "a", "b"}).command, ElementsAre("copy", "a", "b"));
  EXPECT_THAT(Parsed<RunCommand>({"--", "--", "x"}).command, ElementsAre("--", "x"));
}

TEST(CommandLine, KnowsItsVerbs) {
  EXPECT_EQ(Parsed<CopySelf>({"copy", "/asterism"}).folder, "/asterism");
  Parsed<ServeWorker>({"worker"});
  Parsed<ShowVersion>({"--version"});
  Parsed<ShowUsage>({"--help"});
  const auto remote = Parsed<RunRemotely>({"rsh", "-x", "host-1", "orted", "-mca", "ess env"});
  EXPECT_EQ(remote.host, "host-1");
  EXPECT_THAT(remote.command, ElementsAre("orted", "-mca", "ess env"));
}

TEST(CommandLine, SaysWhatIsMissing) {
  EXPECT_THAT(ParseCommandLine({}).status().message(), HasSubstr("no command"));
  EXPECT_THAT(ParseCommandLine({"--"}).status().message(), HasSubstr("no command"));
  EXPECT_THAT(ParseCommandLine({"--what"}).status().message(), HasSubstr("--what"));
  EXPECT_THAT(ParseCommandLine({"copy"}).status().message(), HasSubstr("folder"));
  EXPECT_THAT(ParseCommandLine({"worker", "x"}).status().message(), HasSubstr("worker"));
  EXPECT_THAT(ParseCommandLine({"rsh", "host"}).status().message(), HasSubstr("command"));
}

}  // namespace
}  // namespace asterism::launch
