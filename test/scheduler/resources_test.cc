#include "scheduler/resources.h"

#include <limits>

#include "gtest/gtest.h"

namespace asterism::scheduler {
namespace {

constexpr int64_t kAmountMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kAmountMin = std::numeric_limits<int64_t>::min();

ResourceVector Of(size_t slot, int64_t amount) {
  ResourceVector amounts;
  amounts[slot] = amount;
  return amounts;
}

TEST(ResourceVector, SumsSaturateAtBothEnds) {
  ResourceVector amounts = Of(3, kAmountMax - 10);
  amounts.Add(Of(3, 10));
  EXPECT_EQ(amounts[3], kAmountMax);
  amounts.Add(Of(3, 1));
  EXPECT_EQ(amounts[3], kAmountMax);
  amounts = Of(3, kAmountMin);
  amounts.Subtract(Of(3, 1));
  EXPECT_EQ(amounts[3], kAmountMin);
  amounts = Of(3, 5);
  amounts.Subtract(Of(3, kAmountMin));
  EXPECT_EQ(amounts[3], kAmountMax);
  amounts = Of(3, -5);
  amounts.Add(Of(3, kAmountMin));
  EXPECT_EQ(amounts[3], kAmountMin);
}

TEST(ResourceVector, FitsAsOftenAsTheScarcestResourceAllows) {
  ResourceVector free;
  free[kCpuSlot] = 64'000;
  free[kMemorySlot] = 100;
  free[3] = 8;
  ResourceVector request;
  request[kCpuSlot] = 8'000;
  request[3] = 2;
  EXPECT_EQ(free.TimesFits(request, 100), 4);
  EXPECT_EQ(free.TimesFits(request, 3), 3);
  request[kMemorySlot] = 101;
  EXPECT_EQ(free.TimesFits(request, 100), 0);
}

TEST(ResourceVector, NegativeFreeFitsNothingAndOnlyWhatIsAskedCounts) {
  const ResourceVector free = Of(3, -4);
  EXPECT_EQ(free.TimesFits(Of(3, 1), 10), 0);
  EXPECT_EQ(free.TimesFits(ResourceVector(), 10), 10);
  EXPECT_EQ(free.TimesFits(Of(3, -1), 10), 10);
  EXPECT_EQ(free.TimesFits(ResourceVector(), -1), 0);
}

TEST(ResourceTable, GivesSlotsOnceAndOnlyWhileThereIsRoom) {
  ResourceTable table;
  EXPECT_EQ(table.Find("cpu"), kCpuSlot);
  EXPECT_EQ(table.Find("memory"), kMemorySlot);
  EXPECT_EQ(table.Find("pods"), kPodsSlot);
  EXPECT_EQ(table.Find("nvidia.com/gpu"), std::nullopt);
  EXPECT_EQ(table.SlotOf("nvidia.com/gpu"), 3U);
  EXPECT_EQ(table.SlotOf("nvidia.com/gpu"), 3U);
  EXPECT_EQ(table.name(3), "nvidia.com/gpu");
  for (size_t slot = table.size(); slot < kResourceSlots; ++slot) {
    EXPECT_EQ(table.SlotOf("resource-" + std::to_string(slot)), slot);
  }
  EXPECT_EQ(table.SlotOf("one-too-many"), std::nullopt);
  EXPECT_EQ(table.size(), kResourceSlots);
}

}  // namespace
}  // namespace asterism::scheduler
