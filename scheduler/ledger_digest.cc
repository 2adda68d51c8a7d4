#include <algorithm>
#include <utility>

#include "scheduler/ledger.h"
#include "scheduler/ledger_impl.h"

namespace asterism::scheduler {
namespace {

class Fnv {
 public:
  void Add(std::string_view text) {
    Add(static_cast<int64_t>(text.size()));
    for (const char letter : text) {
      AddByte(static_cast<unsigned char>(letter));
    }
  }
  void Add(int64_t number) {
    for (int shift = 0; shift < 64; shift += 8) {
      AddByte(static_cast<uint64_t>(number) >> shift & 0xff);
    }
  }
  uint64_t value() const { return value_; }

 private:
  void AddByte(uint64_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }
  uint64_t value_ = 0xcbf29ce484222325;
};

// Hashes amounts by name, so that the order in which names got their slots does not matter.
class AmountHasher {
 public:
  explicit AmountHasher(const ResourceTable& table) {
    for (size_t slot = 0; slot < table.size(); ++slot) {
      by_name_.emplace_back(table.name(slot), slot);
    }
    std::sort(by_name_.begin(), by_name_.end());
  }

  void Add(Fnv& hash, const ResourceVector& amounts) const {
    for (const auto& [name, slot] : by_name_) {
      if (amounts[slot] != 0) {
        hash.Add(name);
        hash.Add(amounts[slot]);
      }
    }
    hash.Add(int64_t{-1});
  }

 private:
  std::vector<std::pair<std::string, size_t>> by_name_;
};

void AddCluster(Fnv& hash, const topology::Cluster& cluster) {
  hash.Add(static_cast<int64_t>(cluster.level_count()));
  for (size_t level = 0; level < cluster.level_count(); ++level) {
    hash.Add(cluster.level_name(level));
    for (size_t index = 0; index < cluster.domain_count(level); ++index) {
      const topology::DomainId domain(index);
      hash.Add(cluster.domain_name(level, domain));
      hash.Add(static_cast<int64_t>(cluster.NodesOf(level, domain).size()));
      hash.Add(int64_t{cluster.named(level, domain)});
    }
  }
}

void AddRows(Fnv& hash, const AmountHasher& amounts, const LedgerRows& rows) {
  for (const LedgerRows::Row* row : rows.SortedRows()) {
    if (!row->known && row->used == ResourceVector()) {
      continue;
    }
    hash.Add(row->state.name);
    hash.Add(int64_t{row->known});
    hash.Add(int64_t{row->state.usable});
    hash.Add(int64_t{row->state.degraded});
    hash.Add(row->state.product);
    hash.Add(int64_t{row->state.node_class});
    amounts.Add(hash, row->state.allocatable);
    amounts.Add(hash, row->used);
  }
}

void AddPod(Fnv& hash, const AmountHasher& amounts, const PodState& pod) {
  hash.Add(pod.uid);
  hash.Add(pod.name);
  hash.Add(pod.node);
  hash.Add(pod.pinned_node);
  amounts.Add(hash, pod.requests);
  hash.Add(pod.gang_uid);
  hash.Add(pod.first_rank);
  hash.Add(pod.epoch);
  hash.Add(int64_t{pod.deleting});
}

void AddGang(Fnv& hash, const AmountHasher& amounts, const LedgerRows& rows,
             const GangEntry& entry) {
  const Gang& gang = entry.gang;
  hash.Add(gang.uid);
  hash.Add(gang.name);
  hash.Add(gang.queue);
  hash.Add(gang.product);
  hash.Add(gang.epoch);
  hash.Add(gang.ranks_per_block);
  hash.Add(gang.gpus_per_block);
  amounts.Add(hash, gang.request);
  for (const BlockRecord& block : entry.blocks) {
    hash.Add(block.first_rank);
    hash.Add(rows.row(block.place).state.name);
    hash.Add(block.epoch);
    hash.Add(block.pod == nullptr ? std::string_view() : block.pod->state.uid);
  }
  hash.Add(static_cast<int64_t>(entry.spares.size()));
  for (const SpareRecord& spare : entry.spares) {
    hash.Add(rows.row(spare.place).state.name);
    hash.Add(spare.epoch);
  }
}

}  // namespace

uint64_t Ledger::Digest() const {
  Fnv hash;
  const AmountHasher amounts(impl_->table);
  AddCluster(hash, *impl_->rows.cluster());
  AddRows(hash, amounts, impl_->rows);
  for (const auto& [uid, pod] : impl_->pods) {
    AddPod(hash, amounts, pod->state);
  }
  for (const auto& [uid, entry] : impl_->gangs) {
    if (entry->decided) {
      AddGang(hash, amounts, impl_->rows, *entry);
    }
  }
  return hash.value();
}

}  // namespace asterism::scheduler
