#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "controller/configuration.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/source_tree.h"

namespace asterism::controller {
namespace {

const std::string kConfigurationPage =
    asterism::test_paths::SourceTree() + "/docs/configuration.md";

TEST(ConfigurationDocument, EqualsTheTable) {
  if (std::getenv("ASTERISM_WRITE_DOCS") != nullptr) {  // NOLINT(concurrency-mt-unsafe)
    std::ofstream(kConfigurationPage) << ConfigurationHelp();
  }
  std::ostringstream page;
  page << std::ifstream(kConfigurationPage).rdbuf();
  EXPECT_EQ(page.str(), ConfigurationHelp())
      << "write it anew: ASTERISM_WRITE_DOCS=1 controller_test --gtest_filter='*Document*'";
}

TEST(ConfigurationDocument, NamesEveryFieldOnce) {
  const std::string help = ConfigurationHelp();
  for (const char* field : {"`levels`", "`ports.https`", "`leaderElection.retryPeriodSeconds`"}) {
    const size_t first = help.find(std::string("| ") + field + " |");
    EXPECT_NE(first, std::string::npos) << field;
    EXPECT_EQ(help.find(std::string("| ") + field + " |", first + 1), std::string::npos) << field;
  }
}

}  // namespace
}  // namespace asterism::controller
