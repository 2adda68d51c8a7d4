#include "scheduler/gang_pod.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <limits>
#include <string>

namespace asterism::scheduler {
namespace {

constexpr std::string_view kUid = "3f2a9c1e-0000";

TEST(GangPodName, IsReadBack) {
  EXPECT_EQ(GangPodName("llama", kUid, 64, 1), "llama-3f2a9-r64-e1");
  EXPECT_TRUE(rc::check("a name says its numbers", [] {
    const auto number = rc::gen::inRange<int64_t>(0, std::numeric_limits<int64_t>::max());
    const GangPodNumbers numbers{*number, *number};
    const std::string name = GangPodName("llama", kUid, numbers.first_rank, numbers.epoch);
    RC_ASSERT(ReadGangPodName(name, "llama", kUid) == numbers);
  }));
}

TEST(GangPodName, NothingElseIsOne) {
  for (const char* name :
       {"", "llama", "llama-3f2a9", "llama-3f2a9-r64", "llama-3f2a9-r64-e", "llama-3f2a9-r-e1",
        "llama-3f2a9-r64-e1x", "llama-3f2a9-r-1-e1", "llama-3f2a9-r64-e-1", "xllama-3f2a9-r64-e1",
        "llama-3f2a8-r64-e1", "llama-3f2a9-r64-e99999999999999999999", "llama-3f2a9-r 64-e1"}) {
    EXPECT_FALSE(ReadGangPodName(name, "llama", kUid)) << name;
  }
}

}  // namespace
}  // namespace asterism::scheduler
