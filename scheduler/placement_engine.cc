#include "scheduler/placement_engine.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace asterism::scheduler {
namespace {

constexpr int64_t kNoCap = std::numeric_limits<int64_t>::max();

// Whether `left` is kept before `right`. Traffic counts for preferred rules only.
bool Precedes(const LevelRule& left, const LevelRule& right) {
  if (!left.required && left.bytes_per_step != right.bytes_per_step) {
    return left.bytes_per_step > right.bytes_per_step;
  }
  return left.level < right.level;
}

// Behind those that are equal. (std::stable_sort would allocate.)
void Insert(const LevelRule& rule, std::vector<LevelRule>& rules) {
  rules.push_back(rule);
  for (size_t i = rules.size() - 1; i > 0 && Precedes(rules[i], rules[i - 1]); --i) {
    std::swap(rules[i], rules[i - 1]);
  }
}

}  // namespace

void PlacementEngine::Prepare(const PlacementRequest& request, const Ledger& ledger,
                              Capacity capacity, std::span<const ExpectedEnd> ended) {
  request_ = &request;
  ledger_ = &ledger;
  tree_.Load(ledger.cluster());
  required_.clear();
  preferred_.clear();
  for (const LevelRule& rule : request.rules) {
    if (rule.level < tree_.levels()) {
      Insert(rule, rule.required ? required_ : preferred_);
    }
  }
  caps_.clear();
  for (const ApartRule& rule : request.apart) {
    caps_.resize(tree_.levels(), kNoCap);
    // What bounds a domain bounds those inside it.
    for (size_t level = 0; level <= rule.level; ++level) {
      caps_[level] = std::min(caps_[level], rule.pods_max);
    }
  }
  kept_.clear();
  free_pods_ = request.pods;
  switch (capacity) {
    case Capacity::kFree:
      LoadKept();
      slots_.ScanFree(request, ledger, ended);
      break;
    case Capacity::kRepaired:
      LoadKept();
      slots_.ScanRepaired(request, ledger);
      break;
    case Capacity::kEmpty:
      slots_.ScanEmpty(request, ledger);
      break;
  }
  LoadProducts();
}

void PlacementEngine::LoadKept() {
  const size_t pods = static_cast<size_t>(request_->pods);
  for (size_t pod = 0; pod < std::min(request_->kept.size(), pods); ++pod) {
    const std::string& name = request_->kept[pod];
    if (name.empty()) {
      continue;
    }
    if (const NodeId node = ledger_->cluster().FindNode(name); node.valid()) {
      kept_.resize(pods, UnitCapacity::kFree);
      kept_[pod] = static_cast<uint32_t>(node.index());
      --free_pods_;
    }
  }
}

void PlacementEngine::LoadProducts() {
  products_.clear();
  const std::vector<std::string>& names = ledger_->product_names();
  for (const uint32_t node : kept_) {
    if (node != UnitCapacity::kFree && ledger_->ProductColumn()[node] != Ledger::kNoProduct) {
      products_.push_back(ledger_->ProductColumn()[node]);
      return;
    }
  }
  const auto add = [&](size_t index) {
    const uint32_t product = static_cast<uint32_t>(index);
    if (std::find(products_.begin(), products_.end(), product) == products_.end()) {
      products_.push_back(product);
    }
  };
  if (request_->products.empty()) {
    for (size_t index = 0; index < names.size(); ++index) {
      add(index);
    }
    std::sort(products_.begin(), products_.end(),
              [&](uint32_t left, uint32_t right) { return names[left] < names[right]; });
    return;
  }
  for (const std::string& wanted : request_->products) {
    const auto it = std::find(names.begin(), names.end(), wanted);
    if (it != names.end()) {
      add(static_cast<size_t>(it - names.begin()));
    }
  }
}

bool PlacementEngine::Fits(uint32_t product, int64_t pods, std::span<const LevelRule> rules) {
  slots_.Select(*ledger_, product, rules);
  shape_ = ShapeOf(pods, rules, tree_.levels());
  capacity_.Load(tree_, shape_, slots_.slots(), kept_, caps_);
  return capacity_.FitsCluster();
}

int64_t PlacementEngine::SlotsIn(size_t level, uint32_t domain) const {
  if (level == 0) {
    return slots_.slots()[domain];
  }
  int64_t sum = 0;
  const uint32_t end = tree_.FirstChild(level, domain + 1);
  for (uint32_t child = tree_.FirstChild(level, domain); child < end; ++child) {
    sum += SlotsIn(level - 1, child);
  }
  return sum;
}

bool PlacementEngine::FitsRequired(int64_t pods) {
  for (const uint32_t product : products_) {
    if (Fits(product, pods, required_)) {
      return true;
    }
  }
  return false;
}

// Leaves candidate.rules with what can hold, and the capacity loaded for them.
bool PlacementEngine::ChooseRules(Candidate& candidate) {
  const auto all_of = [&](size_t preferred_count) {
    candidate.rules = required_;
    for (size_t i = 0; i < preferred_count; ++i) {
      if (candidate.held[i] != 0) {
        candidate.rules.push_back(preferred_[i]);
      }
    }
  };
  candidate.held.assign(preferred_.size(), 1);
  all_of(preferred_.size());
  if (Fits(candidate.product, request_->pods, candidate.rules)) {
    return true;
  }
  if (preferred_.empty() || !Fits(candidate.product, request_->pods, required_)) {
    return false;
  }
  for (size_t i = 0; i < preferred_.size(); ++i) {
    all_of(i + 1);
    candidate.held[i] = Fits(candidate.product, request_->pods, candidate.rules) ? 1 : 0;
  }
  all_of(preferred_.size());
  return Fits(candidate.product, request_->pods, candidate.rules);
}

bool PlacementEngine::FindDomain(Candidate& candidate) {
  if (!ChooseRules(candidate)) {
    return false;
  }
  search_.Load(tree_, shape_, capacity_, slots_.room());
  if (!search_.FindTightest()) {
    return false;
  }
  candidate.tightest_level = search_.tightest_level();
  candidate.room = search_.tightest_room();
  return true;
}

bool PlacementEngine::IsBetter(const Candidate& candidate, const Candidate& best) {
  if (candidate.held != best.held) {
    return candidate.held > best.held;
  }
  if (candidate.tightest_level != best.tightest_level) {
    return candidate.tightest_level < best.tightest_level;
  }
  return candidate.room < best.room;
}

bool PlacementEngine::Choose() {
  OpenDegraded();
  if (slots_.islands_matter()) {
    slots_.KeepIslandsWhole(true);
    if (!FitsRequired(request_->pods)) {
      slots_.KeepIslandsWhole(false);
    }
  }
  return ChooseProduct();
}

void PlacementEngine::OpenDegraded() {
  const size_t degraded = slots_.degraded_count();
  if (degraded == 0) {
    return;
  }
  // The more are open, the more fits: the least number that does is found by halves.
  size_t too_few = 0;
  size_t enough = degraded;
  slots_.OpenDegraded(0);
  if (FitsRequired(request_->pods)) {
    enough = 0;
  }
  while (enough > 0 && too_few + 1 < enough) {
    const size_t half = too_few + (enough - too_few) / 2;
    slots_.OpenDegraded(half);
    (FitsRequired(request_->pods) ? enough : too_few) = half;
  }
  slots_.OpenDegraded(enough);
}

bool PlacementEngine::ChooseProduct() {
  bool found = false;
  bool best_is_loaded = false;
  for (const uint32_t product : products_) {
    candidate_.product = product;
    best_is_loaded = false;
    if (FindDomain(candidate_) && (!found || IsBetter(candidate_, best_))) {
      found = true;
      best_is_loaded = true;
      std::swap(best_, candidate_);
    }
  }
  if (found && !best_is_loaded) {
    FindDomain(best_);
  }
  return found;
}

// Leaves room in the roomiest domains of a level only: no more than hold the gang, and those that
// are as roomy as the last of them. False, and nothing changed, where the rules then leave no
// place.
bool PlacementEngine::KeepRoomiest(size_t level) {
  sorted_.clear();
  for (uint32_t domain = 0; domain < tree_.domain_count(level); ++domain) {
    if (const int64_t full = capacity_.full(level, domain); full > 0) {
      sorted_.push_back(full);
    }
  }
  std::sort(sorted_.begin(), sorted_.end(), std::greater<>());
  int64_t rest = shape_.blocks(level);
  int64_t least = 0;
  for (size_t i = 0; i < sorted_.size() && rest > 0; ++i) {
    least = sorted_[i];
    rest -= least;
  }
  if (rest > 0) {
    return false;
  }
  for (uint32_t node = 0; node < tree_.node_count(); ++node) {
    if (capacity_.full(level, tree_.Ancestor(level, node)) < least) {
      slots_.Drop(node);
    }
  }
  capacity_.Load(tree_, shape_, slots_.slots(), kept_, caps_);
  if (capacity_.FitsCluster()) {
    return true;
  }
  Fits(best_.product, request_->pods, best_.rules);
  return false;
}

bool PlacementEngine::Distribute() {
  first_levels_.clear();
  if (request_->policy != PlacementPolicy::kSpread) {
    for (size_t i = 0; i < preferred_.size(); ++i) {
      if (best_.held[i] == 0) {
        first_levels_.push_back(preferred_[i].level);
      }
    }
    if (request_->policy == PlacementPolicy::kPack) {
      first_levels_.push_back(0);
    }
  }
  if (!first_levels_.empty()) {
    if (search_.DistributeBy(first_levels_)) {
      return true;
    }
    if (!capacity_.has_kept() && KeepRoomiest(first_levels_.front())) {
      search_.Load(tree_, shape_, capacity_, slots_.room());
      search_.FindTightest();
    }
  }
  return search_.Distribute(request_->policy);
}

bool PlacementEngine::Assign(Placed& placed) {
  if (!Distribute()) {
    return false;
  }
  order_.Assign(tree_, shape_, capacity_, search_.quota(), placed.nodes);
  placed.spares.clear();
  if (request_->spares > 0) {
    slots_.Select(*ledger_, best_.product, {});
    for (const std::string& name : request_->spares_kept) {
      placed.spares.push_back(ledger_->cluster().FindNode(name));
    }
    spares_.Choose(tree_, slots_.slots(), placed.nodes, request_->spares, placed.spares);
    if ((slots_.degraded_count() > 0 || slots_.islands_matter()) &&
        static_cast<int64_t>(placed.spares.size()) < request_->spares) {
      placed.spares.resize(request_->spares_kept.size());
      slots_.OpenDegraded(slots_.degraded_count());
      slots_.KeepIslandsWhole(false);
      slots_.Select(*ledger_, best_.product, {});
      spares_.Choose(tree_, slots_.slots(), placed.nodes, request_->spares, placed.spares);
    }
  }
  placed.product = ledger_->product_names()[best_.product];
  meter_.Measure(ledger_->cluster(), placed.nodes, placed.levels);
  return true;
}

}  // namespace asterism::scheduler
