#include "cli/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/strings.h"
#include "cli/completion.h"
#include "cli/usage.h"

namespace asterism::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Words = std::vector<std::string>;

Arguments Read(const Words& words) {
  const absl::StatusOr<Arguments> arguments = ReadArguments(words);
  EXPECT_TRUE(arguments.ok()) << arguments.status();
  return arguments.value_or(Arguments{});
}

std::string ErrorOf(const Words& words) {
  const absl::StatusOr<Arguments> arguments = ReadArguments(words);
  EXPECT_FALSE(arguments.ok()) << words.back();
  return std::string(base::ToStd(arguments.status().message()));
}

TEST(Arguments, OptionsMayBeWrittenAsKubectlTakesThem) {
  for (const Words& words :
       std::vector<Words>{{"explain", "llama", "-n", "research"},
                          {"explain", "llama", "-nresearch"},
                          {"explain", "-n=research", "llama"},
                          {"--namespace", "research", "explain", "llama"},
                          {"explain", "--namespace=research", "--", "llama"}}) {
    const Arguments arguments = Read(words);
    EXPECT_EQ(arguments.verb, Verb::kExplain);
    EXPECT_EQ(arguments.namespace_name, "research");
    EXPECT_THAT(arguments.names, ElementsAre("llama"));
  }
  const Arguments joined = Read({"top", "-Aojson"});
  EXPECT_TRUE(joined.all_namespaces);
  EXPECT_EQ(joined.output, OutputFormat::kJson);
  EXPECT_FALSE(Read({"top", "--all-namespaces=false"}).all_namespaces);
  EXPECT_EQ(Read({"topology", "--output=wide"}).output, OutputFormat::kWide);
  EXPECT_EQ(Read({"topology"}).controller_namespace, "asterism-system");
  EXPECT_THAT(Read({"explain", "--", "-odd"}).names, ElementsAre("-odd"));
}

TEST(Arguments, MisuseSaysWhatToTypeInstead) {
  EXPECT_THAT(ErrorOf({"topolgy"}), HasSubstr("did you mean \"topology\"?"));
  EXPECT_THAT(ErrorOf({"a\x1b[2J"}), HasSubstr("\"a\\x1b[2J\" is no verb"));
  EXPECT_THAT(ErrorOf({"top", "--namespce", "x"}), HasSubstr("did you mean \"namespace\"?"));
  EXPECT_THAT(ErrorOf({"top", "-x"}), HasSubstr("-x is no option (see kubectl asterism top"));
  EXPECT_THAT(ErrorOf({"top", "-n"}), HasSubstr("--namespace needs a value: NAME"));
  EXPECT_THAT(ErrorOf({"top", "-n", ""}), HasSubstr("not empty"));
  EXPECT_THAT(ErrorOf({"top", "-o", "xml"}), HasSubstr("use json, yaml or wide"));
  EXPECT_THAT(ErrorOf({"top", "--level", "node"}), HasSubstr("top does not take --level"));
  EXPECT_THAT(ErrorOf({"top", "-A", "-n", "x"}), HasSubstr("exclude each other"));
  EXPECT_THAT(ErrorOf({"top", "-A=maybe"}), HasSubstr("is no option"));
  EXPECT_THAT(ErrorOf({"top", "--all-namespaces=maybe"}), HasSubstr("takes no value"));
  EXPECT_THAT(ErrorOf({"explain"}), HasSubstr("explain needs JOB: kubectl asterism explain JOB"));
  EXPECT_THAT(ErrorOf({"explain", "a", "b"}), HasSubstr("\"b\" is too many"));
  EXPECT_THAT(ErrorOf({"topology", "x"}), HasSubstr("\"x\" is too many"));
  EXPECT_THAT(ReadArguments(Words{}).status().ToString(), HasSubstr("no verb"));
}

TEST(Arguments, HelpNeedsNothingElse) {
  EXPECT_TRUE(Read({"explain", "--help"}).help);
  EXPECT_TRUE(Read({"-h"}).help);
  EXPECT_TRUE(Read({"help", "top"}).help);
}

TEST(Usage, EveryVerbAndOptionIsDescribed) {
  for (const VerbDescription& verb : AllVerbs()) {
    EXPECT_THAT(UsageText(), HasSubstr(std::string(verb.name)));
    for (const Option option : verb.options) {
      EXPECT_THAT(UsageText(verb.verb), HasSubstr("--" + std::string(DescriptionOf(option).name)));
    }
  }
}

TEST(Completion, KnowsThreeShellsAndAllVerbs) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const std::string script = CompletionScript(shell).value_or("");
    for (const VerbDescription& verb : AllVerbs()) {
      EXPECT_THAT(script, HasSubstr(std::string(verb.name))) << shell;
    }
  }
  EXPECT_EQ(CompletionScript("tcsh"), std::nullopt);
}

}  // namespace
}  // namespace asterism::cli
