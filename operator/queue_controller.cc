#include "operator/queue_controller.h"

#include <utility>
#include <vector>

#include "base/log.h"
#include "fmt/format.h"
#include "operator/conditions.h"
#include "operator/queue_guarantees.h"
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

std::string_view FaultWord(scheduler::QuotaFault fault) {
  return fault == scheduler::QuotaFault::kParentCycle ? "ParentCycle" : "ParentMissing";
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
  const base::StringMap<QueueSums> sums = SumUp();
  std::vector<kube::Shared<Queue>> queues;
  queues_.ForEach([&](const kube::Shared<Queue>& queue) { queues.push_back(queue); });
  const QueueGuarantees guarantees(queues, tree, feed_.GpusByProduct());
  ++round_;
  for (const kube::Shared<Queue>& queue : queues) {
    const auto found = sums.find(queue->meta.name);
    WriteOne(*queue, found == sums.end() ? QueueSums() : found->second,
             tree.Problem(queue->meta.name), guarantees.Excess(*queue));
  }
  std::erase_if(written_, [this](const auto& entry) { return entry.second.round != round_; });
}

base::StringMap<QueueController::QueueSums> QueueController::SumUp() const {
  base::StringMap<QueueSums> sums;
  for (const auto& gang : feed_.ledger().Gangs()) {
    sums[gang->queue].used[gang->product] += gang->gpus_held();
  }
  for (const auto& [queue, pending] : dispatcher_.PendingByQueue()) {
    sums[queue].pending = pending;
  }
  return sums;
}

void QueueController::WriteOne(const Queue& queue, const QueueSums& sums,
                               const std::optional<scheduler::QuotaProblem>& problem,
                               const std::string& excess) {
  std::vector<QueueUsage> used;
  for (const auto& [product, gpus] : sums.used) {
    used.push_back({product, gpus});
  }
  Written& written = written_[queue.meta.uid];
  written.round = round_;
  SetCondition(written.conditions,
               {.type = "Ready",
                .status = problem ? "False" : "True",
                .reason = problem ? FaultWord(problem->fault) : "Ready",
                .message = problem ? problem->message : "",
                .observed_generation = queue.meta.generation},
               clock_.Now());
  SetCondition(written.conditions,
               {.type = "Overcommitted",
                .status = excess.empty() ? "False" : "True",
                .reason = excess.empty() ? "GuaranteesCovered" : "GuaranteesExceedCluster",
                .message = excess,
                .observed_generation = queue.meta.generation},
               clock_.Now());
  std::string body =
      QueueStatusApplyBody(queue, used, sums.pending.jobs, sums.pending.gpus, written.conditions);
  if (written.body == body) {
    return;
  }
  written.body = body;
  const std::string& name = queue.meta.name;
  client_.Patch(kQueues, {"", name}, std::move(body),
                {.type = kube::PatchType::kApply,
                 .subresource = "status",
                 .field_manager = "asterism-controller"},
                alive_.Wrap([this, name, uid = queue.meta.uid](absl::StatusOr<kube::Reply> reply) {
                  if (!reply.ok() && !absl::IsNotFound(reply.status())) {
                    base::LogWarning(
                        "queue_status_not_written",
                        {{"queue", name}, {"error", std::string(reply.status().message())}});
                    if (const auto found = written_.find(uid); found != written_.end()) {
                      found->second.body.clear();
                    }
                    OnChange();
                  }
                }));
}

}  // namespace asterism::operators
