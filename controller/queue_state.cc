#include "controller/queue_state.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "kube/object.h"
#include "operator/conditions.h"
#include "operator/job_state.h"

namespace asterism::controller {
namespace {

QueueRow RowOf(const operators::JobState& job, const scheduler::QueuedGang* queued,
               int64_t position) {
  const operators::WaitingStatus& waiting = job.status.waiting;
  QueueRow row{.namespace_name = job.meta().namespace_name,
               .name = job.meta().name,
               .queue = job.object->spec.queue,
               .priority = job.admission.priority,
               .gpus = job.object->spec.gpus,
               .position = position,
               .reason = waiting.reason,
               .message = waiting.message,
               .nearest_change = waiting.nearest_change,
               .waiting_since = job.meta().creation_time};
  const kube::Condition* placed = kube::FindCondition(job.status.conditions, operators::kPlaced);
  if (queued != nullptr) {
    row.waiting_since = queued->waiting_since;
    row.gpus = queued->gpus;
  } else if (placed != nullptr && placed->status == "False") {
    row.waiting_since = placed->last_transition_time;
  }
  return row;
}

bool Waits(const operators::JobState& job) {
  return !job.gone && !job.status.waiting.reason.empty();
}

}  // namespace

std::shared_ptr<const QueueState> CaptureQueue(const operators::JobController& jobs,
                                               const std::shared_ptr<const QueueState>& before) {
  std::vector<QueueRow> rows;
  const scheduler::GangQueue& queue = jobs.dispatcher().queue();
  int64_t position = 0;
  queue.ForEach([&](const scheduler::QueuedGang& gang) {
    ++position;
    if (const auto job = jobs.jobs().find(gang.uid);
        job != jobs.jobs().end() && !job->second->gone) {
      rows.push_back(RowOf(*job->second, &gang, position));
    }
  });
  const auto admitted = static_cast<std::ptrdiff_t>(rows.size());
  for (const auto& [uid, job] : jobs.jobs()) {
    if (Waits(*job) && queue.Find(uid) == nullptr) {
      rows.push_back(RowOf(*job, nullptr, 0));
    }
  }
  std::sort(rows.begin() + admitted, rows.end(), [](const QueueRow& left, const QueueRow& right) {
    return std::tie(left.namespace_name, left.name) < std::tie(right.namespace_name, right.name);
  });

  std::map<std::pair<std::string_view, std::string_view>, const std::shared_ptr<const QueueRow>*>
      known;
  if (before != nullptr) {
    for (const auto& row : before->rows) {
      known[{row->namespace_name, row->name}] = &row;
    }
  }
  auto state = std::make_shared<QueueState>();
  state->rows.reserve(rows.size());
  for (QueueRow& row : rows) {
    state->gpus += row.gpus;
    state->namespaces.insert(row.namespace_name);
    const auto same = known.find({row.namespace_name, row.name});
    state->rows.push_back(same != known.end() && **same->second == row
                              ? *same->second
                              : std::make_shared<const QueueRow>(std::move(row)));
  }
  return before != nullptr && state->rows == before->rows ? before : state;
}

}  // namespace asterism::controller
