#include "base/open_files.h"

#include <sys/resource.h>

#include <algorithm>

#include "gtest/gtest.h"

namespace asterism::base {
namespace {

TEST(OpenFiles, TheSoftLimitIsRaisedToTheHardOne) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = std::min<rlim_t>(64, before.rlim_max);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(OpenFileLimit(), low.rlim_cur);
  EXPECT_EQ(RaiseOpenFileLimit(), std::min<rlim_t>(before.rlim_max, kOpenFilesMax));
  EXPECT_EQ(RaiseOpenFileLimit(), OpenFileLimit());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace asterism::base
