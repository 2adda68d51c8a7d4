#include "operator/queue_controller.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "fmt/format.h"
#include "operator/conditions.h"
#include "scheduler/quota.h"

namespace asterism::operators {
namespace {

constexpr absl::Duration kQueueStatusInterval = absl::Seconds(2);

scheduler::QuotaQueue ToQuota(const Queue& queue) {
  scheduler::QuotaQueue quota{.name = queue.meta.name,
                              .parent = queue.spec.parent,
                              .max_gpus_per_job = queue.spec.max_gpus_per_job,
                              .stopped = queue.spec.stop_policy != "None"};
  for (const QueueQuota& row : queue.spec.quotas) {
    quota.limits.push_back({row.product, row.limit});
  }
  return quota;
}

scheduler::QuotaTree TreeOf(const kube::Store<Queue>& queues) {
  std::vector<scheduler::QuotaQueue> rows;
  queues.ForEach([&](const kube::Shared<Queue>& queue) { rows.push_back(ToQuota(*queue)); });
  return scheduler::QuotaTree(std::move(rows));
}

}  // namespace

QueueController::QueueController(base::Clock& clock, base::Executor& executor, kube::Client& client,
                                 ClusterFeed& feed, GangDispatcher& dispatcher,
                                 const kube::Store<Queue>& queues, std::function<bool()> may_write)
    : clock_(clock),
      client_(client),
      feed_(feed),
      dispatcher_(dispatcher),
      queues_(queues),
      may_write_(std::move(may_write)),
      timer_(executor) {}

void QueueController::OnChange() {
  if (!timer_.pending()) {
    timer_.Start(kQueueStatusInterval, [this] { WriteAll(); });
  }
}

void QueueController::RefreshQuota() {
  dispatcher_.SetQuota(TreeOf(queues_));
}

void QueueController::WriteAll() {
  if (!may_write_()) {
    return;
  }
  const scheduler::QuotaTree tree = TreeOf(queues_);
  std::vector<QueueUse> uses;
  for (const auto& gang : feed_.ledger().Gangs()) {
    uses.push_back({gang->queue, gang->product,
                    gang->gpus_per_block * static_cast<int64_t>(gang->blocks.size())});
  }
  queues_.ForEach([&](const kube::Shared<Queue>& queue) {
    WriteOne(*queue, uses, tree.Problem(queue->meta.name));
  });
}

void QueueController::WriteOne(const Queue& queue, const std::vector<QueueUse>& uses,
                               const std::string& problem) {
  std::map<std::string, int64_t> by_product;
  for (const QueueUse& use : uses) {
    if (use.queue == queue.meta.name) {
      by_product[use.product] += use.gpus;
    }
  }
  std::vector<QueueUsage> used;
  for (const auto& [product, gpus] : by_product) {
    used.push_back({product, gpus});
  }
  const GangDispatcher::Pending pending = dispatcher_.PendingOf(queue.meta.name);
  std::vector<kube::Condition>& conditions = conditions_[queue.meta.name];
  SetCondition(conditions,
               {.type = "Ready",
                .status = problem.empty() ? "True" : "False",
                .reason = problem.empty() ? "Ready" : "ParentProblem",
                .message = problem,
                .observed_generation = queue.meta.generation},
               clock_.Now());
  std::string body = QueueStatusApplyBody(queue, used, pending.jobs, pending.gpus, conditions);
  const std::string& name = queue.meta.name;
  if (const auto known = written_.find(name); known != written_.end() && known->second == body) {
    return;
  }
  written_[name] = body;
  client_.Patch(kQueues, {"", name}, std::move(body),
                {.type = kube::PatchType::kApply,
                 .subresource = "status",
                 .field_manager = "asterism-controller"},
                alive_.Wrap([this, name](absl::StatusOr<kube::Reply> reply) {
                  if (!reply.ok() && !absl::IsNotFound(reply.status())) {
                    base::LogWarning(
                        "queue_status_not_written",
                        {{"queue", name}, {"error", std::string(reply.status().message())}});
                    written_.erase(name);
                    OnChange();
                  }
                }));
}

}  // namespace asterism::operators
