#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "scheduler/ledger.h"
#include "scheduler/ledger_impl.h"

namespace asterism::scheduler {
namespace {

struct Recount {
  ExactVector sum{};
  uint32_t references = 0;
};
using RecountByName = std::map<std::string, Recount, std::less<>>;

void AddTo(Recount& recount, const ResourceVector& amounts) {
  for (size_t slot = 0; slot < kResourceSlots; ++slot) {
    recount.sum[slot] += amounts[slot];
  }
}

ResourceVector SaturatedSum(const ExactVector& sum) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  ResourceVector amounts;
  for (size_t slot = 0; slot < kResourceSlots; ++slot) {
    amounts[slot] = sum[slot] > kMax ? kMax : static_cast<int64_t>(sum[slot]);
  }
  return amounts;
}

// Follows the rule of the header again, from the pods alone.
const PodState* PresentByRule(
    const std::map<std::string, std::unique_ptr<PodRecord>, std::less<>>& pods,
    const GangEntry& entry, const std::string& gang_uid, const BlockRecord& block,
    const std::string& node) {
  for (const auto& [uid, record] : pods) {
    const PodState& pod = record->state;
    const std::string& place = pod.node.empty() ? pod.pinned_node : pod.node;
    if (pod.gang_uid == gang_uid && pod.first_rank == block.first_rank &&
        pod.epoch == block.epoch && place == node && !pod.deleting &&
        SameNamespace(pod.name, entry.gang.name)) {
      return &pod;
    }
  }
  return nullptr;
}

absl::Status CompareRow(const LedgerRows& rows, const LedgerRows::Row& row,
                        const Recount& recount) {
  const std::string& name = row.state.name;
  if (row.sum != recount.sum || row.used != SaturatedSum(recount.sum)) {
    return absl::InternalError(
        fmt::format("ledger: node \"{}\": its holders do not add up to what is booked", name));
  }
  if (row.references != recount.references) {
    return absl::InternalError(
        fmt::format("ledger: node \"{}\" is referred to {} times, counted {}", name,
                    recount.references, row.references));
  }
  if (!row.node.valid()) {
    return absl::OkStatus();
  }
  for (size_t slot = 0; slot < kResourceSlots; ++slot) {
    if (rows.free(slot)[row.node.index()] != row.state.allocatable[slot] - row.used[slot]) {
      return absl::InternalError(
          fmt::format("ledger: node \"{}\": free amount of slot {} is stale", name, slot));
    }
  }
  const uint32_t product = rows.product()[row.node.index()];
  if (row.known != (product < rows.product_names().size()) ||
      (row.known && rows.product_names()[product] != row.state.product)) {
    return absl::InternalError(fmt::format("ledger: node \"{}\": its product is stale", name));
  }
  return absl::OkStatus();
}

absl::Status CheckProducts(const LedgerRows& rows) {
  for (size_t product = 0; product < rows.product_names().size(); ++product) {
    if (std::count(rows.product().begin(), rows.product().end(), product) == 0) {
      return absl::InternalError(fmt::format("ledger: product \"{}\" is listed, but no node has it",
                                             rows.product_names()[product]));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Ledger::Verify() const {
  RecountByName recounts;
  absl::flat_hash_map<const PodRecord*, int> present;
  for (const auto& [gang_uid, entry] : impl_->gangs) {
    for (const BlockRecord& block : entry->blocks) {
      const std::string& node = impl_->rows.row(block.place).state.name;
      const PodState* expected = PresentByRule(impl_->pods, *entry, gang_uid, block, node);
      if (expected != (block.pod == nullptr ? nullptr : &block.pod->state)) {
        return absl::InternalError(
            fmt::format("ledger: node \"{}\": the present pod of rank {} of gang {} is wrong", node,
                        block.first_rank, gang_uid));
      }
      Recount& recount = recounts[node];
      AddTo(recount, Impl::Held(*entry, block));
      ++recount.references;
      if (block.pod != nullptr) {
        ++present[block.pod];
      }
    }
    for (const SpareRecord& spare : entry->spares) {
      Recount& recount = recounts[impl_->rows.row(spare.place).state.name];
      AddTo(recount, entry->gang.request);
      ++recount.references;
    }
  }
  for (const auto& [uid, pod] : impl_->pods) {
    Recount& recount = recounts[pod->bound() ? pod->state.node : pod->state.pinned_node];
    ++recount.references;
    if (pod->bound() && present.find(pod.get()) == present.end()) {
      AddTo(recount, pod->state.requests);
    }
  }
  for (const LedgerRows::Row* row : impl_->rows.SortedRows()) {
    RETURN_IF_ERROR(CompareRow(impl_->rows, *row, recounts[row->state.name]));
    recounts.erase(row->state.name);
  }
  if (!recounts.empty()) {
    return absl::InternalError(
        fmt::format("ledger: node \"{}\" has holders but no row", recounts.begin()->first));
  }
  return CheckProducts(impl_->rows);
}

}  // namespace asterism::scheduler
