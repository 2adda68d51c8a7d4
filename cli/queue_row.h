// File: cli/queue_row.h
//
// A Queue as its users see it: what it uses of what it may use. From the Queue's spec and from the
// status that the controller writes.
//
//   const QueueRow row = QueueRowOf(queue);
//   UseText(row)   // "1024 GPUs used, 2048 guaranteed, limit 4096"
//
// Thread-safety: values. Cost: one parse of the status.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "operator/queue.h"

namespace asterism::cli {

struct QueueRow {
  std::string name;
  std::string parent;
  std::string stop_policy;
  int64_t used = 0;
  int64_t guaranteed = 0;
  int64_t borrowed = 0;
  std::optional<int64_t> limit;
  int64_t pending_jobs = 0;
  int64_t pending_gpus = 0;
  std::string problem;  // of its condition Ready, empty when all is well
};

QueueRow QueueRowOf(const operators::Queue& queue);
std::string UseText(const QueueRow& row);
nlohmann::ordered_json QueueRowJson(const QueueRow& row);

}  // namespace asterism::cli
