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

// What Open MPI, MPICH's Hydra, Intel MPI and Slurm put before, and after, the host.
TEST(CommandLine, TakesTheOptionsOfSsh) {
  using Words = std::vector<std::string>;
  for (const Words& options :
       {Words{"-x"}, Words{"-l", "user"}, Words{"-luser"}, Words{"-xT", "-l", "user", "-p", "22"},
        Words{"-o", "StrictHostKeyChecking=no", "-oBatchMode=yes"}, Words{"-q", "-4A", "-i", "key"},
        Words{"-xluser"}, Words{"-x", "--"}, Words{}}) {
    Words words = {"rsh"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"host-1", "orted", "-mca", "x"});
    const auto remote = Parsed<RunRemotely>(words);
    EXPECT_EQ(remote.host, "host-1") << options.size();
    EXPECT_THAT(remote.command, ElementsAre("orted", "-mca", "x"));
    EXPECT_FALSE(remote.no_input);
  }
  const auto after = Parsed<RunRemotely>({"rsh", "user@host-1", "-l", "user", "-n", "orted", "-x"});
  EXPECT_EQ(after.host, "host-1");
  EXPECT_TRUE(after.no_input);
  EXPECT_THAT(after.command, ElementsAre("orted", "-x"));
}

TEST(CommandLine, RefusesWhatSshWouldNotTakeOrThisCannotDo) {
  const auto why = [](const std::vector<std::string>& words) {
    return std::string(ParseCommandLine(words).status().message());
  };
  EXPECT_THAT(why({"rsh", "-Z", "host", "true"}), HasSubstr("unknown option -Z"));
  EXPECT_THAT(why({"rsh", "-L", "1:h:2", "host", "true"}), HasSubstr("-L cannot be done"));
  EXPECT_THAT(why({"rsh", "-l"}), HasSubstr("-l needs a value"));
  EXPECT_THAT(why({"rsh", "-l", "user", "host"}), HasSubstr("command"));
  EXPECT_THAT(why({"rsh", "a b", "true"}), HasSubstr("\"a b\" is no host"));
  EXPECT_THAT(why({"rsh", "[::1]", "true"}), HasSubstr("without brackets"));
  EXPECT_THAT(why({"rsh", "user@", "true"}), HasSubstr("is no host"));
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
