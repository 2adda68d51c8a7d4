#include "controller/queue_stream.h"

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "asterism/v1/placement.pb.h"

namespace asterism::controller {
namespace {

using RowKey = std::pair<std::string_view, std::string_view>;

RowKey KeyOf(const QueueRow& row) {
  return {row.namespace_name, row.name};
}

void FillRow(const QueueRow& row, v1::WaitingJob& job) {
  job.mutable_job()->set_namespace_(row.namespace_name);
  job.mutable_job()->set_name(row.name);
  job.set_queue(row.queue);
  job.set_priority(row.priority);
  job.set_gpus(row.gpus);
  job.set_position(row.position);
  job.set_reason(row.reason);
  job.set_message(row.message);
  job.set_nearest_change(row.nearest_change);
  job.set_waiting_since_unix_seconds(absl::ToUnixSeconds(row.waiting_since));
}

}  // namespace

struct QueueStream::Rows {
  std::vector<const QueueRow*> shown;
  int64_t omitted = 0;
};

QueueStream::QueueStream(QueueFilter filter, Credentials credentials, QueueWriter& writer,
                         std::shared_ptr<const std::atomic<bool>> retired)
    : filter_(std::move(filter)),
      credentials_(std::move(credentials)),
      retired_(std::move(retired)),
      writer_(&writer) {}

void QueueStream::Offer(std::shared_ptr<const QueueState> state,
                        std::shared_ptr<const VisibleNamespaces> visible) {
  absl::MutexLock lock(&mutex_);
  newest_ = {std::move(state), std::move(visible)};
  WriteNext();
}

void QueueStream::OnWritten() {
  absl::MutexLock lock(&mutex_);
  writing_ = false;
  WriteNext();
}

void QueueStream::End(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (QueueWriter* writer = std::exchange(writer_, nullptr); writer != nullptr) {
    told_ = {};
    newest_ = {};
    writer->Finish(status);
  }
}

bool QueueStream::ended() const {
  absl::MutexLock lock(&mutex_);
  return writer_ == nullptr;
}

void QueueStream::WriteNext() {
  if (writer_ == nullptr || writing_ || newest_ == told_) {
    return;
  }
  std::unique_ptr<v1::WatchQueueResponse> message = MessageOf(told_, newest_);
  told_ = newest_;
  if (message != nullptr) {
    writing_ = true;
    writer_->Write(std::move(message));
  }
}

QueueStream::Rows QueueStream::RowsOf(const Sight& sight) const {
  Rows rows;
  for (const auto& row : sight.state->rows) {
    const bool asked =
        (filter_.namespace_name.empty() || filter_.namespace_name == row->namespace_name) &&
        (filter_.queue.empty() || filter_.queue == row->queue);
    if (!asked || !sight.visible->Shows(row->namespace_name)) {
      continue;
    }
    if (rows.shown.size() < kQueueRowsMax) {
      rows.shown.push_back(row.get());
    } else {
      ++rows.omitted;
    }
  }
  return rows;
}

// Null: the caller would see no difference.
std::unique_ptr<v1::WatchQueueResponse> QueueStream::MessageOf(const Sight& told,
                                                               const Sight& now) const {
  auto message = std::make_unique<v1::WatchQueueResponse>();
  message->set_snapshot(told.state == nullptr);
  const Rows rows = RowsOf(now);
  std::map<RowKey, const QueueRow*> before;
  if (told.state != nullptr) {
    for (const QueueRow* row : RowsOf(told).shown) {
      before[KeyOf(*row)] = row;
    }
  }
  for (const QueueRow* row : rows.shown) {
    const auto known = before.find(KeyOf(*row));
    if (known == before.end()) {
      FillRow(*row, *message->add_jobs());
      continue;
    }
    if (known->second != row && !(*known->second == *row)) {
      FillRow(*row, *message->add_jobs());
    }
    before.erase(known);
  }
  for (const auto& [key, row] : before) {
    message->add_gone()->set_namespace_(row->namespace_name);
    message->mutable_gone(message->gone_size() - 1)->set_name(row->name);
  }
  message->set_waiting_jobs(static_cast<int64_t>(now.state->rows.size()));
  message->set_waiting_gpus(now.state->gpus);
  message->set_omitted_jobs(rows.omitted);
  const bool same_sums = told.state != nullptr &&
                         told.state->rows.size() == now.state->rows.size() &&
                         told.state->gpus == now.state->gpus;
  if (same_sums && message->jobs().empty() && message->gone().empty()) {
    return nullptr;
  }
  return message;
}

}  // namespace asterism::controller
