#include "scheduler/exact_search.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/check.h"

namespace asterism::scheduler {
namespace {

constexpr int64_t kImpossible = std::numeric_limits<int64_t>::max() / 4;  // as waste

// The finisher of splitmix64.
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

void ExactSearch::Load(const PlacementTree& tree, const GangShape& shape,
                       const UnitCapacity& capacity, const DomainRooms& rooms) {
  tree_ = &tree;
  shape_ = &shape;
  capacity_ = &capacity;
  rooms_ = &rooms;
}

void ExactSearch::SetOrder(std::span<const size_t> first, size_t top) {
  // At no level can more domains be opened than there are pods.
  const int bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(shape_->pods)));
  counts_fit_ = static_cast<size_t>(bits) * top <= 128;
  if (!counts_fit_) {
    return;
  }
  one_.fill(0);
  int shift = bits * static_cast<int>(top);
  const auto next = [&](size_t level) {
    if (level < top && one_[level] == 0) {
      shift -= bits;
      one_[level] = Counts{1} << shift;
    }
  };
  outermost_first_ = true;
  size_t expected = top;
  for (const size_t level : first) {
    outermost_first_ = outermost_first_ && level + 1 == expected;
    expected = level;
    next(level);
  }
  for (size_t level = top; level-- > 0;) {
    next(level);
  }
}

// `children`: the sum of their looks, so that their order does not matter.
uint64_t ExactSearch::LookOf(size_t level, uint32_t domain, uint64_t children) const {
  const int64_t tail = shape_->has_tail(level) ? capacity_->tail(level, domain) : -1;
  const int64_t full = capacity_->full(level, domain);
  const bool kept = capacity_->kept_in(level, domain) > 0;
  if (full == 0 && tail < 0 && !kept) {
    return 0;
  }
  // Odd factors keep small numbers apart; a domain with kept pods is like no other.
  return Mix(static_cast<uint64_t>((*rooms_)[level][domain]) * 0x9e3779b97f4a7c15 +
             static_cast<uint64_t>(full) * 0xc2b2ae3d27d4eb4f +
             static_cast<uint64_t>(tail) * 0x165667b19e3779f9 +
             (kept ? uint64_t{domain} + 1 : 0) * 0xd6e8feb86659fd93 +
             static_cast<uint64_t>(level) * 0xa0761d6478bd642f + children);
}

// For all domains below. Those without room look like nothing.
void ExactSearch::HashLooks(size_t level, uint32_t domain) {
  std::array<std::pair<uint32_t, uint32_t>, kTreeLevelsMax> range;
  range[level] = {domain, domain + 1};
  for (size_t at = level; at > 0; --at) {
    range[at - 1] = {tree_->FirstChild(at, range[at].first),
                     tree_->FirstChild(at, range[at].second)};
  }
  for (size_t at = 0; at < level; ++at) {
    looks_[at].resize(tree_->domain_count(at));
    for (uint32_t index = range[at].first; index < range[at].second; ++index) {
      uint64_t children = 0;
      if (at > 0) {
        const uint32_t last = tree_->FirstChild(at, index + 1);
        for (uint32_t child = tree_->FirstChild(at, index); child < last; ++child) {
          children += looks_[at - 1][child];
        }
      }
      looks_[at][index] = LookOf(at, index, children);
    }
  }
}

// Counts domains that differ in their capacity only, so it is never more than the work to come.
bool ExactSearch::SurelyTooMuchWork(size_t level, uint32_t domain, int64_t units) {
  if (units * units > work_max_) {
    return true;
  }
  seen_.assign(static_cast<size_t>(units) + 1, 0);
  int64_t work = 0;
  const uint32_t end = tree_->FirstChild(level, domain + 1);
  for (uint32_t child = tree_->FirstChild(level, domain); child < end; ++child) {
    const int64_t full = std::min(capacity_->full(level - 1, child), units);
    if (full > 0 && ++seen_[static_cast<size_t>(full)] <= UsefulCopies(full, units, false)) {
      work += (full + 1) * units;
    }
  }
  return work > work_max_;
}

// How many domains of one kind, each with room for `full` units, a best split can use. More would
// be fewer when merged; where domains are not what counts most, each still takes one unit.
int64_t ExactSearch::UsefulCopies(int64_t full, int64_t units, bool tail) const {
  const int64_t each = outermost_first_ ? full : 1;
  return (full > 0 ? (units + each - 1) / each : 0) + (tail ? 1 : 0);
}

int64_t ExactSearch::UnitsFor(size_t level, uint32_t domain, int64_t blocks, bool tail) const {
  return blocks * shape_->ratio[level] + capacity_->demand(level, domain) +
         (tail ? shape_->tail_blocks[level] : 0);
}

bool ExactSearch::InnerTail(size_t level, uint32_t domain, bool tail) const {
  return (tail && shape_->has_tail(level - 1)) || capacity_->demands_tail(level, domain);
}

ExactSearch::Cost ExactSearch::InnerCost(size_t level, const Item& item, int64_t taken,
                                         bool takes_tail) const {
  return level == 0
             ? Cost()
             : costs_[tables_[item.table].costs[takes_tail ? 1 : 0] + static_cast<size_t>(taken)];
}

// The children of table.domain that can be of use, in the order of their ids.
void ExactSearch::AddItems(size_t level, Table& table) {
  const size_t inner = level - 1;
  const bool with_tail = table.tails == 2;
  copies_.clear();
  table.items_begin = items_.size();
  const uint32_t end = tree_->FirstChild(level, table.domain + 1);
  for (uint32_t child = tree_->FirstChild(level, table.domain); child < end; ++child) {
    const uint64_t look = looks_[inner][child];
    if (look == 0) {
      continue;
    }
    Item item;
    item.domain = child;
    item.look = look;
    item.full = std::min(capacity_->full(inner, child), table.units);
    item.tail = with_tail ? std::min(capacity_->tail(inner, child), table.units) : -1;
    if (capacity_->kept_in(inner, child) == 0) {
      if (++copies_[look] > UsefulCopies(item.full, table.units, with_tail)) {
        continue;
      }
      item.open = {one_[inner], (*rooms_)[inner][child]};
    }
    items_.push_back(item);
  }
  table.items_end = items_.size();
}

bool ExactSearch::FillKnapsack(size_t level, const Table& table) {
  const size_t tails = table.tails;
  const size_t rows = static_cast<size_t>(table.units) + 1;
  best_.assign(rows * tails, Cost{0, kImpossible});
  best_[0] = Cost();
  for (size_t index = table.items_begin; index < table.items_end; ++index) {
    const Item& item = items_[index];
    const size_t choices = table.choices + (index - table.items_begin) * rows * tails;
    next_.assign(rows * tails, Cost{0, kImpossible});
    for (size_t tail = 0; tail < 2; ++tail) {
      const int64_t most = tail == 0 ? item.full : item.tail;
      work_ += (most + 1) * table.units;
      if (work_ > work_max_) {
        return false;
      }
      for (int64_t taken = 0; taken <= most; ++taken) {
        Cost part = InnerCost(level - 1, item, taken, tail == 1);
        if (part.waste >= kImpossible) {
          continue;
        }
        if (taken > 0 || tail == 1) {
          part = part + item.open;
        }
        // `before` and `after`: with the inner tail placed or not.
        for (size_t before = 0; before + tail < tails; ++before) {
          const size_t after = before + tail;
          for (size_t units = static_cast<size_t>(taken); units < rows; ++units) {
            const Cost& rest = best_[(units - static_cast<size_t>(taken)) * tails + before];
            if (rest.waste >= kImpossible) {
              continue;
            }
            const Cost cost = rest + part;
            Cost& target = next_[units * tails + after];
            if (target.waste >= kImpossible || cost < target) {
              target = cost;
              choices_[choices + units * tails + after] = {static_cast<uint32_t>(taken), tail == 1};
            }
          }
        }
      }
    }
    best_.swap(next_);
  }
  return true;
}

size_t ExactSearch::Build(size_t level, uint32_t domain, int64_t units, bool tail) {
  const size_t index = tables_.size();
  Table table;
  table.domain = domain;
  table.units = units;
  table.tails = tail ? 2 : 1;
  AddItems(level, table);
  tables_.push_back(table);
  if (level > 1) {
    for (size_t item = table.items_begin; item < table.items_end; ++item) {
      const size_t found = FindOrBuild(level - 1, items_[item]);
      if (found == kTooMuchWork) {
        return kTooMuchWork;
      }
      items_[item].table = found;
    }
  }
  table.choices = choices_.size();
  const size_t cells =
      (table.items_end - table.items_begin) * (static_cast<size_t>(units) + 1) * table.tails;
  work_ += static_cast<int64_t>(cells);
  if (work_ > work_max_) {
    return kTooMuchWork;
  }
  choices_.resize(choices_.size() + cells);
  tables_[index].choices = table.choices;
  return FillKnapsack(level, table) ? index : kTooMuchWork;
}

// The table of a domain that is an item of its parent: costs for any number of blocks of `level`.
size_t ExactSearch::FindOrBuild(size_t level, const Item& item) {
  const uint64_t key = Mix(item.look + static_cast<uint64_t>(item.full) * 0xc2b2ae3d27d4eb4f +
                           static_cast<uint64_t>(item.tail) * 0x165667b19e3779f9);
  if (const auto it = table_by_look_.find(key); it != table_by_look_.end()) {
    return it->second;
  }
  const uint32_t domain = item.domain;
  const std::array<int64_t, 2> most = {item.full, item.tail};
  int64_t units = UnitsFor(level, domain, most[0], false);
  bool inner_tail = InnerTail(level, domain, false);
  if (most[1] >= 0) {
    units = std::max(units, UnitsFor(level, domain, most[1], true));
    inner_tail = inner_tail || InnerTail(level, domain, true);
  }
  const size_t index = Build(level, domain, units, inner_tail);
  if (index == kTooMuchWork) {
    return kTooMuchWork;
  }
  Table& table = tables_[index];
  for (size_t tail = 0; tail < 2; ++tail) {
    table.costs[tail] = costs_.size();
    for (int64_t blocks = 0; blocks <= most[tail]; ++blocks) {
      const size_t needed = static_cast<size_t>(UnitsFor(level, domain, blocks, tail == 1));
      const size_t placed = InnerTail(level, domain, tail == 1) ? 1 : 0;
      costs_.push_back(best_[needed * table.tails + placed]);
    }
  }
  table_by_look_.emplace(key, index);
  return index;
}

// Points the items of a table, made for a domain that looks the same, at the children of this one.
void ExactSearch::MatchItems(size_t level, uint32_t domain, const Table& table) {
  size_t matched = table.items_begin;
  const uint32_t end = tree_->FirstChild(level, domain + 1);
  copies_.clear();
  for (uint32_t child = tree_->FirstChild(level, domain); child < end && matched < table.items_end;
       ++child) {
    const uint64_t look = looks_[level - 1][child];
    if (look == 0) {
      continue;
    }
    // The n-th child of a look stands for the n-th item of that look.
    int64_t skip = copies_[look]++;
    for (size_t item = table.items_begin; item < table.items_end; ++item) {
      if (items_[item].look == look && skip-- == 0) {
        items_[item].domain = child;
        ++matched;
        break;
      }
    }
  }
  CHECK_THAT(matched == table.items_end, "domains that look alike have different children");
}

void ExactSearch::Apply(size_t level, uint32_t domain, size_t table_index, int64_t units, bool tail,
                        DomainQuota& quota) {
  const Table table = tables_[table_index];
  MatchItems(level, domain, table);
  const size_t rows = static_cast<size_t>(table.units) + 1;
  size_t rest = static_cast<size_t>(units);
  size_t placed = tail ? 1 : 0;
  for (size_t index = table.items_end; index-- > table.items_begin;) {
    const size_t choices = table.choices + (index - table.items_begin) * rows * table.tails;
    const Choice choice = choices_[choices + rest * table.tails + placed];
    items_[index].taken = choice.taken;
    items_[index].takes_tail = choice.takes_tail;
    rest -= choice.taken;
    placed -= choice.takes_tail ? 1 : 0;
  }
  CHECK_THAT(rest == 0 && placed == 0, "a split does not add up");
  for (size_t index = table.items_begin; index < table.items_end; ++index) {
    const Item item = items_[index];
    quota.Set(level - 1, item.domain, item.taken, item.takes_tail);
    const bool used =
        item.taken > 0 || item.takes_tail || capacity_->kept_in(level - 1, item.domain) > 0;
    if (level > 1 && used) {
      Apply(level - 1, item.domain, item.table,
            UnitsFor(level - 1, item.domain, item.taken, item.takes_tail),
            InnerTail(level - 1, item.domain, item.takes_tail), quota);
    }
  }
}

// As much as the work limit allows to be used: the search then never allocates again.
void ExactSearch::ReserveBuffers() {
  const auto cells = static_cast<size_t>(std::clamp<int64_t>(work_max_, 0, kWorkMax));
  if (choices_.capacity() >= cells) {
    return;
  }
  choices_.reserve(cells);
  costs_.reserve(cells);
  best_.reserve(cells);
  next_.reserve(cells);
  items_.reserve(cells);
  tables_.reserve(cells);
  seen_.reserve(cells);
}

bool ExactSearch::Solve(size_t level, uint32_t domain, int64_t units, bool tail,
                        DomainQuota& quota) {
  if (!counts_fit_ || SurelyTooMuchWork(level, domain, units)) {
    return false;
  }
  work_ = 0;
  ReserveBuffers();
  tables_.clear();
  items_.clear();
  choices_.clear();
  costs_.clear();
  table_by_look_.clear();
  HashLooks(level, domain);
  const size_t index = Build(level, domain, units, tail);
  if (index == kTooMuchWork) {
    return false;
  }
  const size_t tails = tables_[index].tails;
  if (best_[static_cast<size_t>(units) * tails + (tail ? 1 : 0)].waste >= kImpossible) {
    return false;
  }
  Apply(level, domain, index, units, tail, quota);
  return true;
}

}  // namespace asterism::scheduler
