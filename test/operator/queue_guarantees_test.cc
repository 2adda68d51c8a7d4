#include "operator/queue_guarantees.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::operators {
namespace {

using ::testing::StartsWith;

kube::Shared<Queue> Make(const std::string& name, const std::string& parent,
                         const std::vector<std::pair<std::string, int64_t>>& guarantees) {
  auto queue = std::make_shared<Queue>();
  queue->meta.name = name;
  queue->spec.parent = parent;
  for (const auto& [product, gpus] : guarantees) {
    queue->spec.quotas.push_back({.product = product, .guaranteed = gpus});
  }
  return queue;
}

std::string ExcessOf(const std::string& name, const std::vector<kube::Shared<Queue>>& queues,
                     const std::map<std::string, int64_t>& gpus) {
  std::vector<scheduler::QuotaQueue> rows;
  for (const auto& queue : queues) {
    rows.push_back({.name = queue->meta.name, .parent = queue->spec.parent});
  }
  const QueueGuarantees guarantees(queues, scheduler::QuotaTree(rows), gpus);
  for (const auto& queue : queues) {
    if (queue->meta.name == name) {
      return guarantees.Excess(*queue);
    }
  }
  return "no such queue";
}

TEST(QueueGuarantees, AddUpByProduct) {
  const std::vector<kube::Shared<Queue>> queues = {
      Make("a", "", {{"H100", 64}, {"A100", 8}}), Make("b", "", {{"H100", 32}}),
      Make("c", "", {{"A100", 8}}), Make("d", "", {{"H100", 0}}), Make("e", "", {})};
  const std::map<std::string, int64_t> gpus = {{"H100", 64}, {"A100", 16}};
  EXPECT_EQ(ExcessOf("a", queues, gpus),
            "all queues together guarantee 96 GPUs of H100, the cluster has 64: lower "
            "spec.quotas[].guaranteed of some, or add nodes");
  EXPECT_THAT(ExcessOf("b", queues, gpus), StartsWith("all queues together guarantee 96 GPUs"));
  EXPECT_EQ(ExcessOf("c", queues, gpus), "");
  EXPECT_EQ(ExcessOf("d", queues, gpus), "") << "it is promised nothing";
  EXPECT_EQ(ExcessOf("e", queues, gpus), "");
  EXPECT_EQ(ExcessOf("a", queues, {{"H100", 96}, {"A100", 16}}), "");
  EXPECT_THAT(ExcessOf("a", queues, {}), StartsWith("all queues together guarantee"));
}

TEST(QueueGuarantees, AParentCoversItsChildren) {
  std::vector<kube::Shared<Queue>> queues = {Make("top", "", {{"H100", 64}}),
                                             Make("left", "top", {{"H100", 32}}),
                                             Make("right", "top", {{"H100", 32}})};
  EXPECT_EQ(ExcessOf("top", queues, {{"H100", 64}}), "");
  queues.push_back(Make("more", "top", {{"H100", 1}}));
  EXPECT_THAT(ExcessOf("left", queues, {{"H100", 64}}),
              StartsWith("all queues together guarantee 65 GPUs of H100"));
}

TEST(QueueGuarantees, TheRestIsMetFromWhatNamesLeaveOver) {
  const std::vector<kube::Shared<Queue>> queues = {Make("a", "", {{"H100", 16}, {"*", 8}}),
                                                   Make("b", "", {{"*", 8}})};
  EXPECT_EQ(ExcessOf("b", queues, {{"H100", 16}, {"A100", 8}, {"", 8}}), "");
  EXPECT_EQ(ExcessOf("b", queues, {{"H100", 16}, {"A100", 8}, {"", 7}}),
            "all queues together guarantee 16 GPUs of products that are not listed (\"*\"), the "
            "cluster has 15: lower spec.quotas[].guaranteed of some, or add nodes");
}

TEST(QueueGuarantees, QueuesWithoutASoundPlaceCountNothing) {
  const std::vector<kube::Shared<Queue>> queues = {
      Make("a", "", {{"H100", 8}}), Make("x", "y", {{"H100", 8}}), Make("y", "x", {{"H100", 8}}),
      Make("orphan", "nobody", {{"H100", 8}})};
  EXPECT_EQ(ExcessOf("a", queues, {{"H100", 8}}), "");
}

}  // namespace
}  // namespace asterism::operators
