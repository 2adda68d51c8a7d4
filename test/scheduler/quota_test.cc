#include "scheduler/quota.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::scheduler {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kGpusMax = std::numeric_limits<int64_t>::max();

std::string Verdict(const QuotaTree& tree, const std::string& queue, const std::string& product,
                    int64_t gpus) {
  const std::optional<QuotaRefusal> refusal = tree.Admit(queue, product, gpus);
  return refusal.has_value() ? refusal->message : "";
}

TEST(Quota, HoldsForTheQueueAndItsAncestors) {
  QuotaTree tree({{.name = "division", .limits = {{"*", 128}}},
                  {.name = "research", .parent = "division", .limits = {{"*", 100}}},
                  {.name = "product", .parent = "division"}});
  tree.AddUse("research", "H100", 60);
  tree.AddUse("product", "H200", 30);
  EXPECT_EQ(tree.Used("division", "H100"), 90);
  EXPECT_EQ(tree.Used("research", "H100"), 60);
  EXPECT_EQ(Verdict(tree, "research", "H100", 38), "");
  EXPECT_EQ(Verdict(tree, "research", "H100", 41),
            "queue research has 60 of 100 GPUs in use, 41 more do not fit its limit");
  EXPECT_EQ(Verdict(tree, "research", "H100", 39),
            "queue division has 90 of 128 GPUs in use, 39 more do not fit its limit");
  EXPECT_EQ(Verdict(tree, "product", "H100", 38), "");
  EXPECT_EQ(tree.Admit("product", "H100", 39)->queue, "division");
  EXPECT_EQ(tree.Admit("product", "H100", 39)->reason, QuotaReason::kQuotaExceeded);
  tree.ClearUse();
  EXPECT_EQ(tree.Used("division", "H100"), 0);
}

TEST(Quota, LimitsCountPerProductAndTheRestTogether) {
  QuotaTree tree({{.name = "q", .limits = {{"H200", 8}, {"*", 16}}},
                  {.name = "open", .limits = {{"H200", std::nullopt}, {"*", 0}}}});
  tree.AddUse("q", "H200", 8);
  tree.AddUse("q", "H100", 8);
  tree.AddUse("q", "", 4);
  EXPECT_EQ(tree.Used("q", "H200"), 8);
  EXPECT_EQ(tree.Used("q", "A100"), 12);
  EXPECT_EQ(Verdict(tree, "q", "A100", 4), "");
  EXPECT_EQ(Verdict(tree, "q", "A100", 5),
            "queue q has 12 of 16 GPUs in use, 5 more do not fit its limit");
  EXPECT_EQ(Verdict(tree, "q", "H200", 1),
            "queue q has 8 of 8 GPUs of H200 in use, 1 more do not fit its limit");
  EXPECT_EQ(Verdict(tree, "open", "H200", 100'000), "");
  EXPECT_THAT(Verdict(tree, "open", "H100", 1), HasSubstr("0 of 0 GPUs"));
}

TEST(Quota, StoppedQueuesAndLargeJobsAreRefused) {
  QuotaTree tree({{.name = "root", .stopped = true},
                  {.name = "child", .parent = "root"},
                  {.name = "small", .max_gpus_per_job = 1024}});
  EXPECT_EQ(Verdict(tree, "child", "", 1), "queue root is stopped (spec.stopPolicy)");
  EXPECT_EQ(tree.Admit("child", "", 1)->reason, QuotaReason::kQueueStopped);
  EXPECT_EQ(Verdict(tree, "small", "", 1024), "");
  EXPECT_EQ(Verdict(tree, "small", "", 1025),
            "asks for 1,025 GPUs, queue small allows a job at most 1,024 (spec.maxGpusPerJob)");
  EXPECT_EQ(tree.Admit("small", "", 1025)->reason, QuotaReason::kNotAllowed);
}

TEST(Quota, ReportsCyclesAndMissingParents) {
  QuotaTree tree({{.name = "a", .parent = "b"},
                  {.name = "b", .parent = "c"},
                  {.name = "c", .parent = "b"},
                  {.name = "self", .parent = "self"},
                  {.name = "orphan", .parent = "nobody"},
                  {.name = "below", .parent = "orphan"},
                  {.name = "fine"}});
  ASSERT_TRUE(tree.Problem("a").has_value());
  EXPECT_EQ(tree.Problem("a")->fault, QuotaFault::kParentCycle);
  EXPECT_EQ(tree.Problem("a")->message,
            "the parents of queue a form a cycle (b -> c -> b): change spec.parent of one");
  EXPECT_THAT(tree.Problem("self")->message, HasSubstr("(self -> self)"));
  EXPECT_EQ(tree.Problem("below")->fault, QuotaFault::kParentMissing);
  EXPECT_EQ(tree.Problem("below")->message,
            "queue orphan has the parent nobody, which does not exist: create it or change "
            "spec.parent");
  EXPECT_FALSE(tree.Problem("fine").has_value());
  EXPECT_FALSE(tree.Problem("unknown").has_value());
  EXPECT_THAT(Verdict(tree, "a", "", 1), HasSubstr("cycle"));
  EXPECT_THAT(Verdict(tree, "below", "", 1), HasSubstr("does not exist"));
  EXPECT_EQ(Verdict(tree, "unknown", "", 1),
            "queue unknown does not exist: create it or change spec.queue");
  tree.AddUse("a", "", 5);  // ends
  tree.AddUse("unknown", "", 5);
  EXPECT_EQ(Verdict(tree, "fine", "", kGpusMax), "");
}

TEST(QuotaCase, Queue08SaturatedSumsAdmitNothingMore) {
  QuotaTree tree({{.name = "q", .limits = {{"*", kGpusMax}}}});
  tree.AddUse("q", "", kGpusMax - 10);
  EXPECT_EQ(Verdict(tree, "q", "", 10), "");
  EXPECT_NE(Verdict(tree, "q", "", 11), "");
  tree.AddUse("q", "", 10);
  EXPECT_EQ(tree.Used("q", ""), kGpusMax);
  EXPECT_NE(Verdict(tree, "q", "", 1), "") << "a full quota is not an unlimited one";
  tree.AddUse("q", "", kGpusMax);
  tree.AddUse("q", "H100", kGpusMax);
  EXPECT_EQ(tree.Used("q", ""), kGpusMax);
  EXPECT_NE(Verdict(tree, "q", "", 1), "");
  QuotaTree negative({{.name = "q", .limits = {{"*", -5}}, .max_gpus_per_job = -1}});
  EXPECT_NE(Verdict(negative, "q", "", 1), "");
}

TEST(QuotaCase, Queue08NegativeAmountsGiveNoCredit) {
  QuotaTree tree({{.name = "q", .limits = {{"*", 8}}}});
  tree.AddUse("q", "", -100);
  tree.AddUse("q", "", 0);
  EXPECT_EQ(tree.Used("q", ""), 0);
  EXPECT_EQ(Verdict(tree, "q", "", -1), "asks for -1 GPUs: a job asks for at least 1");
  EXPECT_EQ(Verdict(tree, "q", "", 0), "asks for 0 GPUs: a job asks for at least 1");
  EXPECT_NE(Verdict(tree, "q", "", 9), "");
}

__extension__ using Exact = __int128;

// 10^6 random amounts around the ends of the integers, against exact sums.
TEST(QuotaCase, Queue08NeverAdmitsMoreThanTheLimit) {
  base::Rng rng(8);
  const std::vector<int64_t> amounts = {
      kGpusMax, kGpusMax - 1, kGpusMax - 10, kGpusMax / 2, 1, 10, 1'000'000, 0, -1, -kGpusMax, 8};
  int64_t steps = 0;
  for (uint64_t round = 0; steps < 1'000'000; ++round) {
    const int64_t limit = amounts[rng.Below(6)];
    QuotaTree tree({{.name = "root", .limits = {{"*", limit}}},
                    {.name = "a", .parent = "root"},
                    {.name = "b", .parent = "root", .limits = {{"H100", limit / 2}}}});
    Exact used = 0;
    Exact used_b = 0;
    for (int step = 0; step < 100; ++step, ++steps) {
      const bool in_b = rng.Chance(0.5);
      int64_t gpus = amounts[rng.Below(amounts.size())];
      gpus = rng.Chance(0.5) ? gpus / 7 : gpus;
      const std::string product = rng.Chance(0.5) ? "H100" : "";
      const bool admitted = !tree.Admit(in_b ? "b" : "a", product, gpus).has_value();
      const bool limited = in_b && product == "H100";
      const bool fits =
          gpus > 0 && used + gpus <= limit && (!limited || used_b + gpus <= limit / 2);
      ASSERT_EQ(admitted, fits) << "round " << round << " step " << step;
      // Half of what is refused runs all the same: foreign use that nobody asked about.
      if (admitted || rng.Chance(0.01)) {
        tree.AddUse(in_b ? "b" : "a", product, gpus);
        used += std::max<int64_t>(gpus, 0);
        used_b += limited ? std::max<int64_t>(gpus, 0) : 0;
      }
      ASSERT_EQ(tree.Used("root", ""), static_cast<int64_t>(std::min<Exact>(used, kGpusMax)));
    }
  }
}

}  // namespace
}  // namespace asterism::scheduler
