#include "gang_life.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>
#include <variant>

#include "base/hash.h"
#include "fmt/format.h"
#include "topology/cluster.h"

namespace asterism::scheduler {
namespace {

constexpr std::array<size_t, 5> kLevelCounts = {1, 2, 3, 5, 16};

std::vector<std::string> NamesOfLevels(size_t count) {
  std::vector<std::string> names = {"node"};
  for (size_t level = 1; level < count; ++level) {
    names.push_back(level + 1 == count ? "cluster" : fmt::format("level-{}", level));
  }
  return names;
}

std::string PodUid(const std::string& gang, const RankBlock& block) {
  return fmt::format("{}-{}-{}", gang, block.first_rank, block.epoch);
}

}  // namespace

GangLife::GangLife(uint64_t seed)
    : rng_(seed),
      gpu_slot_(*table_.SlotOf("nvidia.com/gpu")),
      ledger_(std::make_unique<Ledger>(table_)),
      hash_(base::kFnv1aSeed) {
  DrawCluster();
}

// Domains of unequal sizes, some nodes without a name for a level.
void GangLife::DrawCluster() {
  const size_t levels = kLevelCounts[rng_.Below(kLevelCounts.size())];
  const size_t count = 8 + rng_.Below(33);
  const bool products = rng_.Chance(0.3);
  const bool unnamed = rng_.Chance(0.3);
  const int64_t gpus = int64_t{4} << rng_.Below(2);
  std::vector<topology::NodeFacts> facts;
  for (size_t i = 0; i < count; ++i) {
    facts.push_back({fmt::format("n{}", i), {}});
    for (size_t level = 1; level + 1 < levels; ++level) {
      const bool named = !unnamed || !rng_.Chance(0.1);
      // Few far out, and the first ones larger than the others.
      const size_t domain = std::min(rng_.Below(2 + 8 / level), rng_.Below(2 + 8 / level));
      facts.back().domains.push_back(named ? fmt::format("d{}", domain) : "");
    }
  }
  auto built = topology::BuildCluster(NamesOfLevels(levels), facts);
  ledger_->SetCluster(std::make_shared<const topology::Cluster>(*std::move(built)));
  use_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    NodeState state;
    state.name = ledger_->cluster().node_name(NodeId(i));
    state.allocatable = Amounts(gpus);
    state.allocatable[kPodsSlot] = 110;
    state.product = products && rng_.Chance(0.4) ? "H200" : "H100";
    state.node_class = static_cast<uint32_t>(rng_.Below(2));
    nodes_.push_back(state);
    ledger_->SetNode(state);
  }
}

ResourceVector GangLife::Amounts(int64_t gpus) const {
  ResourceVector amounts;
  amounts[gpu_slot_] = gpus;
  amounts[kPodsSlot] = 1;
  return amounts;
}

PlacementRequest GangLife::DrawRequest(const std::string& uid) {
  PlacementRequest request;
  request.gang_uid = uid;
  request.gpu_slot = gpu_slot_;
  request.request = Amounts(int64_t{1} << rng_.Below(4));
  const int64_t most = rng_.Chance(0.2) ? 24 : 6;
  request.pods = 1 + static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(most)));
  for (size_t i = rng_.Chance(0.5) ? 0 : 1 + rng_.Below(2); i > 0; --i) {
    request.rules.push_back(
        {rng_.Below(ledger_->cluster().level_count()),
         1 + static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(request.pods))),
         rng_.Chance(0.5)});
  }
  if (rng_.Chance(0.15)) {
    request.apart.push_back(
        {rng_.Below(ledger_->cluster().level_count()), 1 + static_cast<int64_t>(rng_.Below(4))});
  }
  const double draw = rng_.Uniform();
  request.policy = draw < 0.7    ? PlacementPolicy::kAuto
                   : draw < 0.85 ? PlacementPolicy::kPack
                                 : PlacementPolicy::kSpread;
  if (rng_.Chance(0.2)) {
    request.node_classes = base::Bitmap(2);
    request.node_classes.Set(rng_.Below(2));
  }
  if (rng_.Chance(0.2)) {
    request.products = {rng_.Chance(0.5) ? "H200" : "H100"};
  }
  if (rng_.Chance(0.3)) {
    request.spares = 1 + static_cast<int64_t>(rng_.Below(3));
    request.spares_required = rng_.Chance(0.5);
  }
  return request;
}

std::map<std::string, GangLife::LiveGang>::iterator GangLife::AnyGang() {
  return gangs_.empty()
             ? gangs_.end()
             : std::next(gangs_.begin(), static_cast<std::ptrdiff_t>(rng_.Below(gangs_.size())));
}

std::map<std::string, GangLife::LivePod>::iterator GangLife::AnyPod(bool bound, bool present) {
  if (pods_.empty()) {
    return pods_.end();
  }
  const auto begin =
      std::next(pods_.begin(), static_cast<std::ptrdiff_t>(rng_.Below(pods_.size())));
  const auto wanted = [&](const auto& item) {
    return item.second.state.node.empty() != bound && item.second.present == present;
  };
  const auto behind = std::find_if(begin, pods_.end(), wanted);
  if (behind != pods_.end()) {
    return behind;
  }
  const auto before = std::find_if(pods_.begin(), begin, wanted);
  return before != begin ? before : pods_.end();
}

Gang GangLife::LedgerGang(const std::string& uid, const LiveGang& gang) const {
  Gang told;
  told.uid = uid;
  told.name = "default/" + uid;
  told.queue = "default";
  told.product = gang.product;
  told.epoch = gang.epoch;
  told.gpu_slot = gpu_slot_;
  told.gpus_per_block = GpusOf(gang.request);
  told.request = gang.request.request;
  told.blocks = gang.blocks;
  told.spares = gang.spares;
  return told;
}

// The ledger learns it as one change; in the model the gang goes and comes.
void GangLife::Book(const PlacementRequest& request, const Placed& placed, int64_t epoch) {
  const std::string& uid = request.gang_uid;
  LiveGang next;
  next.request = request;
  next.request.kept.clear();
  next.request.excluded.clear();
  next.request.spares_kept.clear();
  next.product = placed.product;
  next.epoch = epoch;
  const auto before = gangs_.find(uid);
  for (size_t pod = 0; pod < placed.nodes.size(); ++pod) {
    const bool stays = pod < request.kept.size() && !request.kept[pod].empty();
    next.blocks.push_back({static_cast<int64_t>(pod), nodes_[placed.nodes[pod].index()].name,
                           stays ? before->second.blocks[pod].epoch : epoch});
  }
  for (size_t i = 0; i < placed.spares.size(); ++i) {
    const bool stays = i < request.spares_kept.size();
    next.spares.push_back(
        {nodes_[placed.spares[i].index()].name, stays ? before->second.spares[i].epoch : epoch});
  }
  spares_ += next.spares.size();
  Unbook(uid);
  for (const Spare& spare : next.spares) {
    use_[IndexOf(spare.node)].blocks += GpusOf(request);
  }
  std::set<std::string> present;
  for (const RankBlock& block : next.blocks) {
    use_[IndexOf(block.node)].blocks += GpusOf(request);
    present.insert(PodUid(uid, block));
  }
  ledger_->PutGang(LedgerGang(uid, next));
  gangs_[uid] = std::move(next);
  for (auto it = pods_.begin(); it != pods_.end();) {
    LivePod& pod = it->second;
    if (pod.state.gang_uid != uid) {
      ++it;
    } else if (present.contains(it->first)) {
      if (!pod.present && !pod.state.node.empty()) {
        use_[IndexOf(pod.state.node)].leaving -= GpusOf(request);
      }
      pod.present = true;
      ++it;
    } else if (pod.state.node.empty()) {
      ledger_->RemovePod(it->first);  // never bound: the operator takes it back
      it = pods_.erase(it);
    } else {
      ++it;
    }
  }
}

// Its pods stay, as long as they live; in the model only.
void GangLife::Unbook(const std::string& uid) {
  const auto found = gangs_.find(uid);
  if (found == gangs_.end()) {
    return;
  }
  const int64_t gpus = GpusOf(found->second.request);
  for (const RankBlock& block : found->second.blocks) {
    use_[IndexOf(block.node)].blocks -= gpus;
  }
  for (const Spare& spare : found->second.spares) {
    use_[IndexOf(spare.node)].blocks -= gpus;
  }
  for (auto& [pod_uid, pod] : pods_) {
    if (pod.state.gang_uid == uid && pod.present) {
      pod.present = false;
      if (!pod.state.node.empty()) {
        use_[IndexOf(pod.state.node)].leaving += gpus;
      }
    }
  }
  gangs_.erase(found);
}

std::string GangLife::Decide(const PlacementRequest& request, int64_t epoch) {
  Place(request, *ledger_, outcome_);
  const auto* placed = std::get_if<Placed>(&outcome_);
  if (placed == nullptr) {
    ++refused_;
    return CheckRefused(request);
  }
  ++placed_;
  for (const NodeId node : placed->nodes) {
    hash_ = base::Fnv1a(nodes_[node.index()].name, hash_);
  }
  for (const NodeId node : placed->spares) {
    hash_ = base::Fnv1a(nodes_[node.index()].name, hash_);
  }
  if (std::string wrong = CheckPlaced(request, *placed); !wrong.empty()) {
    return wrong;
  }
  if (std::string wrong = CheckSpares(request, *placed); !wrong.empty()) {
    return wrong;
  }
  LiveGang before;
  if (const auto found = gangs_.find(request.gang_uid); found != gangs_.end()) {
    before = found->second;
  }
  Book(request, *placed, epoch);
  std::string wrong = CheckGang(request.gang_uid);
  wrong = wrong.empty() ? CheckNodesOf(before) : wrong;
  return wrong.empty() ? CheckNodesOf(gangs_[request.gang_uid]) : wrong;
}

std::string GangLife::CheckSpares(const PlacementRequest& request, const Placed& placed) const {
  const auto count = static_cast<int64_t>(placed.spares.size());
  if (count > request.spares || (request.spares_required && count < request.spares)) {
    return fmt::format("{} spares of {} have a place", count, request.spares);
  }
  std::map<size_t, int64_t> wanted;
  for (size_t i = 0; i < placed.spares.size(); ++i) {
    const NodeId node = placed.spares[i];
    const std::string& name = nodes_[node.index()].name;
    if (i < request.spares_kept.size()) {
      if (request.spares_kept[i] != name) {
        return fmt::format("spare {} was to stay on {}", i, request.spares_kept[i]);
      }
      continue;
    }
    if (std::find(placed.nodes.begin(), placed.nodes.end(), node) != placed.nodes.end()) {
      return fmt::format("a spare is on {}, where a pod of its gang is", name);
    }
    if (!nodes_[node.index()].usable || nodes_[node.index()].product != placed.product) {
      return fmt::format("a spare is on {}, which it may not use", name);
    }
    wanted[node.index()] += GpusOf(request);
  }
  for (auto& [node, gpus] : wanted) {
    const std::string& name = nodes_[node].name;
    for (const std::string& kept : request.spares_kept) {
      gpus += kept == name ? GpusOf(request) : 0;
    }
    const int64_t own = ledger_->HeldBy(request.gang_uid, NodeId(node))[gpu_slot_];
    if (gpus > nodes_[node].allocatable[gpu_slot_] - use_[node].sum() + own) {
      return fmt::format("{} GPUs of {} are kept as spares, others hold {} of {}", gpus, name,
                         use_[node].sum() - own, nodes_[node].allocatable[gpu_slot_]);
    }
  }
  return "";
}

std::string GangLife::CheckPlaced(const PlacementRequest& request, const Placed& placed) const {
  if (placed.nodes.size() != static_cast<size_t>(request.pods)) {
    return fmt::format("{} pods of {} have a place", placed.nodes.size(), request.pods);
  }
  std::map<size_t, int64_t> wanted;
  std::set<size_t> chosen;  // nodes of pods that do not stay
  bool any_kept = false;
  for (size_t pod = 0; pod < placed.nodes.size(); ++pod) {
    const NodeState& node = nodes_[placed.nodes[pod].index()];
    wanted[placed.nodes[pod].index()] += GpusOf(request);
    if (pod < request.kept.size() && !request.kept[pod].empty()) {
      any_kept = true;
      if (request.kept[pod] != node.name) {
        return fmt::format("pod {} was to stay on {}", pod, request.kept[pod]);
      }
      continue;
    }
    chosen.insert(placed.nodes[pod].index());
    const auto& excluded = request.excluded;
    if (!node.usable || node.product != placed.product ||
        std::find(excluded.begin(), excluded.end(), node.name) != excluded.end() ||
        (request.node_classes.size() > 0 && !request.node_classes.Test(node.node_class))) {
      return fmt::format("pod {} is placed on {}, which it may not use", pod, node.name);
    }
  }
  for (const auto& [node, gpus] : wanted) {
    int64_t own = 0;
    if (const auto found = gangs_.find(request.gang_uid); found != gangs_.end()) {
      for (const RankBlock& block : found->second.blocks) {
        own += block.node == nodes_[node].name ? GpusOf(request) : 0;
      }
      for (const Spare& spare : found->second.spares) {
        own += spare.node == nodes_[node].name ? GpusOf(request) : 0;
      }
    }
    for (const auto& [uid, pod] : pods_) {
      const bool leaves = pod.state.gang_uid == request.gang_uid && !pod.present;
      own += leaves && pod.state.node == nodes_[node].name ? GpusOf(request) : 0;
    }
    // Where all pods stay, others may hold the GPUs twice for now: a block and its leaving pod.
    if (chosen.contains(node) &&
        gpus > nodes_[node].allocatable[gpu_slot_] - use_[node].sum() + own) {
      return fmt::format("{} GPUs of {} are given out to {}, of {} others hold {}", gpus,
                         nodes_[node].name, request.gang_uid, nodes_[node].allocatable[gpu_slot_],
                         use_[node].sum() - own);
    }
  }
  const topology::Cluster& cluster = ledger_->cluster();
  for (const LevelRule& rule : request.rules) {
    for (size_t pod = 0; rule.required && pod < placed.nodes.size(); ++pod) {
      const size_t first = pod - pod % static_cast<size_t>(rule.block_pods);
      if (cluster.DomainOf(rule.level, placed.nodes[pod]) !=
          cluster.DomainOf(rule.level, placed.nodes[first])) {
        return fmt::format("pods {} and {} are in two domains of level {}", first, pod, rule.level);
      }
    }
  }
  for (const ApartRule& rule : request.apart) {
    std::map<size_t, int64_t> together;
    for (const NodeId node : placed.nodes) {
      if (++together[cluster.DomainOf(rule.level, node).index()] > rule.pods_max) {
        return fmt::format("more than {} pods are in one domain of level {}", rule.pods_max,
                           rule.level);
      }
    }
  }
  for (const LevelUse& use : placed.levels) {
    if (!any_kept && use.ring_cuts != use.ring_cuts_minimum) {
      return fmt::format("{} ring cuts at level {}", use.ring_cuts, use.level);
    }
  }
  return "";
}

// Of a gang with at most one rule, all of whose pods may move: counted block by block.
bool GangLife::HasRoom(const PlacementRequest& request, const std::string& product,
                       bool empty) const {
  const topology::Cluster& cluster = ledger_->cluster();
  const bool ruled = !request.rules.empty();
  const size_t level = ruled ? request.rules[0].level : 0;
  const int64_t block = ruled ? std::min(request.rules[0].block_pods, request.pods) : 1;
  std::map<size_t, int64_t> slots;
  for (size_t node = 0; node < nodes_.size(); ++node) {
    const NodeState& state = nodes_[node];
    const topology::DomainId domain = cluster.DomainOf(level, NodeId(node));
    if (state.product != product || (!empty && !state.usable) ||
        (request.node_classes.size() > 0 && !request.node_classes.Test(state.node_class)) ||
        !cluster.named(level, domain)) {
      continue;
    }
    const int64_t free = state.allocatable[gpu_slot_] - (empty ? 0 : use_[node].sum());
    slots[domain.index()] += std::max<int64_t>(free, 0) / GpusOf(request);
  }
  const int64_t tail = request.pods % block;
  int64_t blocks = 0;
  bool beside = tail == 0;
  for (const auto& [domain, count] : slots) {
    blocks += count / block;
    beside = beside || count % block >= tail;
  }
  return blocks - (beside ? 0 : 1) >= request.pods / block;
}

std::string GangLife::CheckRefused(const PlacementRequest& request) const {
  const bool known = gangs_.contains(request.gang_uid);
  const bool for_spares = request.spares > 0 && request.spares_required;
  if (known || for_spares || !request.excluded.empty() || !request.apart.empty() ||
      request.rules.size() > 1 || (request.rules.size() == 1 && !request.rules[0].required)) {
    return "";
  }
  const bool never = std::holds_alternative<Never>(outcome_);
  bool fits_empty = false;
  for (const std::string& product : {std::string("H100"), std::string("H200")}) {
    if (!request.products.empty() && request.products[0] != product) {
      continue;
    }
    if (HasRoom(request, product, /*empty=*/false)) {
      return fmt::format("{} pods of {} GPUs were refused, but there is room", request.pods,
                         GpusOf(request));
    }
    fits_empty = fits_empty || HasRoom(request, product, /*empty=*/true);
  }
  return never == fits_empty ? "NotNow and Never are confused" : "";
}

std::string GangLife::CheckNode(size_t node) const {
  const int64_t promised = use_[node].blocks + use_[node].foreign;
  if (promised > nodes_[node].allocatable[gpu_slot_]) {
    return fmt::format("{} GPUs of {} are promised", promised, nodes_[node].name);
  }
  if (ledger_->used(NodeId(node))[gpu_slot_] != use_[node].sum()) {
    return fmt::format("the ledger says {} GPUs of {} are used, they are {}",
                       ledger_->used(NodeId(node))[gpu_slot_], nodes_[node].name, use_[node].sum());
  }
  return "";
}

std::string GangLife::CheckNodesOf(const LiveGang& gang) const {
  for (const RankBlock& block : gang.blocks) {
    if (std::string wrong = CheckNode(IndexOf(block.node)); !wrong.empty()) {
      return wrong;
    }
  }
  for (const Spare& spare : gang.spares) {
    if (std::string wrong = CheckNode(IndexOf(spare.node)); !wrong.empty()) {
      return wrong;
    }
  }
  return "";
}

std::string GangLife::CheckGang(const std::string& uid) const {
  const std::shared_ptr<const GangView> view = ledger_->FindGang(uid);
  const auto found = gangs_.find(uid);
  if (found == gangs_.end()) {
    return view == nullptr ? "" : fmt::format("{} is cancelled and still in the ledger", uid);
  }
  if (view == nullptr || view->blocks.size() != static_cast<size_t>(found->second.request.pods)) {
    return fmt::format("{} is in the ledger in part", uid);
  }
  for (size_t pod = 0; pod < view->blocks.size(); ++pod) {
    const RankBlock& block = found->second.blocks[pod];
    const auto there = pods_.find(PodUid(uid, block));
    const BlockState state = there == pods_.end()               ? BlockState::kReserved
                             : there->second.state.node.empty() ? BlockState::kPinned
                                                                : BlockState::kBound;
    if (view->blocks[pod].node != block.node || view->blocks[pod].state != state) {
      return fmt::format("block {} of {} is not where or what it should be", pod, uid);
    }
  }
  return view->spares == found->second.spares ? "" : fmt::format("the spares of {} are wrong", uid);
}

std::string GangLife::Arrive() {
  return Decide(DrawRequest(fmt::format("g{}", next_uid_++)), 1);
}

std::string GangLife::Restart() {
  const auto gang = AnyGang();
  if (gang == gangs_.end()) {
    return "";
  }
  PlacementRequest request = gang->second.request;
  request.spares_required = false;
  if (rng_.Chance(0.5)) {
    request.excluded.push_back(gang->second.blocks[rng_.Below(gang->second.blocks.size())].node);
  }
  const std::string uid = gang->first;
  const std::string wrong = Decide(request, gang->second.epoch + 1);
  if (!wrong.empty() || std::holds_alternative<Placed>(outcome_)) {
    return wrong;
  }
  // It goes back to the queue, and its pods go.
  const LiveGang before = gangs_[uid];
  Unbook(uid);
  ledger_->RemoveGang(uid);
  return CheckNodesOf(before);
}

std::string GangLife::Move() {
  const auto gang = AnyGang();
  if (gang == gangs_.end()) {
    return "";
  }
  PlacementRequest request = gang->second.request;
  const std::string away = gang->second.blocks[rng_.Below(gang->second.blocks.size())].node;
  request.excluded = {away};
  for (const RankBlock& block : gang->second.blocks) {
    request.kept.push_back(block.node == away ? "" : block.node);
  }
  // They stay where they are, and no pod moves onto them.
  request.spares = static_cast<int64_t>(gang->second.spares.size());
  for (const Spare& spare : gang->second.spares) {
    request.spares_kept.push_back(spare.node);
    request.excluded.push_back(spare.node);
  }
  ++moved_;
  return Decide(request, gang->second.epoch + 1);
}

// One more or one less, or some look for other places; the pods stay.
std::string GangLife::SparesChange() {
  const auto gang = AnyGang();
  if (gang == gangs_.end()) {
    return "";
  }
  PlacementRequest request = gang->second.request;
  for (const RankBlock& block : gang->second.blocks) {
    request.kept.push_back(block.node);
  }
  request.spares = static_cast<int64_t>(rng_.Below(4));
  request.spares_required = false;
  const std::vector<Spare>& spares = gang->second.spares;
  const size_t most = std::min(spares.size(), static_cast<size_t>(request.spares));
  for (size_t i = 0; i < most && rng_.Chance(0.7); ++i) {
    request.spares_kept.push_back(spares[i].node);
  }
  return Decide(request, gang->second.epoch);
}

std::string GangLife::Cancel() {
  const auto gang = AnyGang();
  if (gang == gangs_.end()) {
    return "";
  }
  const std::string uid = gang->first;
  const LiveGang before = gang->second;
  Unbook(uid);
  ledger_->RemoveGang(uid);
  std::string wrong = CheckGang(uid);
  return wrong.empty() ? CheckNodesOf(before) : wrong;
}

std::string GangLife::PodSeen() {
  const auto gang = AnyGang();
  if (gang == gangs_.end()) {
    return "";
  }
  const RankBlock& block = gang->second.blocks[rng_.Below(gang->second.blocks.size())];
  PodState pod;
  pod.uid = PodUid(gang->first, block);
  if (pods_.contains(pod.uid)) {
    return "";
  }
  pod.name = "default/" + pod.uid;
  pod.pinned_node = block.node;
  pod.requests = gang->second.request.request;
  pod.gang_uid = gang->first;
  pod.first_rank = block.first_rank;
  pod.epoch = block.epoch;
  ledger_->PutPod(pod);
  pods_[pod.uid] = {pod, true};
  const std::string wrong = CheckGang(gang->first);
  return wrong.empty() ? CheckNode(IndexOf(block.node)) : wrong;
}

std::string GangLife::PodBinds() {
  const auto found = AnyPod(/*bound=*/false, /*present=*/true);
  if (found == pods_.end()) {
    return "";
  }
  PodState& pod = found->second.state;
  pod.node = pod.pinned_node;
  ledger_->PutPod(pod);
  const std::string wrong = CheckGang(pod.gang_uid);
  return wrong.empty() ? CheckNode(IndexOf(pod.node)) : wrong;
}

std::string GangLife::PodEnds(bool present) {
  const auto found = AnyPod(rng_.Chance(0.9), present);
  if (found == pods_.end()) {
    return "";
  }
  const PodState pod = found->second.state;
  if (!present && !pod.node.empty()) {
    use_[IndexOf(pod.node)].leaving -= pod.requests[gpu_slot_];
  }
  pods_.erase(found);
  ledger_->RemovePod(pod.uid);
  const std::string wrong = CheckGang(pod.gang_uid);
  return wrong.empty() ? CheckNode(IndexOf(pod.pinned_node)) : wrong;
}

// Drained or back, or a GPU is lost or mended.
std::string GangLife::NodeChanges() {
  const size_t index = rng_.Below(nodes_.size());
  NodeState& node = nodes_[index];
  if (rng_.Chance(0.6)) {
    node.usable = !node.usable || rng_.Chance(0.5);
  } else {
    int64_t& gpus = node.allocatable[gpu_slot_];
    const int64_t changed = rng_.Chance(0.5) ? gpus - 1 : gpus + 1;
    if (changed >= use_[index].sum() && changed <= 8) {
      gpus = changed;
    }
  }
  ledger_->SetNode(node);
  return CheckNode(index);
}

std::string GangLife::ForeignComes() {
  const size_t index = rng_.Below(nodes_.size());
  const int64_t gpus = 1 + static_cast<int64_t>(rng_.Below(2));
  if (nodes_[index].allocatable[gpu_slot_] - use_[index].sum() < gpus) {
    return "";
  }
  PodState pod;
  pod.uid = fmt::format("f{}", next_uid_++);
  pod.name = "other/" + pod.uid;
  pod.node = nodes_[index].name;
  pod.requests = Amounts(gpus);
  use_[index].foreign += gpus;
  ledger_->PutPod(pod);
  foreign_.push_back(pod);
  return CheckNode(index);
}

std::string GangLife::ForeignGoes() {
  if (foreign_.empty()) {
    return "";
  }
  std::swap(foreign_[rng_.Below(foreign_.size())], foreign_.back());
  const PodState pod = foreign_.back();
  foreign_.pop_back();
  const size_t index = IndexOf(pod.node);
  use_[index].foreign -= pod.requests[gpu_slot_];
  ledger_->RemovePod(pod.uid);
  return CheckNode(index);
}

std::string GangLife::Step() {
  const uint64_t draw = rng_.Below(100);
  return draw < 22   ? Arrive()
         : draw < 42 ? PodSeen()
         : draw < 60 ? PodBinds()
         : draw < 66 ? PodEnds(/*present=*/true)
         : draw < 76 ? PodEnds(/*present=*/false)
         : draw < 82 ? Cancel()
         : draw < 86 ? Restart()
         : draw < 90 ? Move()
         : draw < 92 ? SparesChange()
         : draw < 95 ? NodeChanges()
         : draw < 98 ? ForeignComes()
                     : ForeignGoes();
}

std::string GangLife::CheckRebuild() {
  if (const absl::Status status = ledger_->Verify(); !status.ok()) {
    return status.ToString();
  }
  for (size_t node = 0; node < nodes_.size(); ++node) {
    if (std::string wrong = CheckNode(node); !wrong.empty()) {
      return wrong;
    }
  }
  std::vector<std::string> gangs;
  for (const auto& [uid, gang] : gangs_) {
    gangs.push_back(uid);
  }
  std::vector<PodState> pods = foreign_;
  for (const auto& [uid, pod] : pods_) {
    pods.push_back(pod.state);
  }
  std::vector<NodeState> nodes = nodes_;
  rng_.Shuffle(gangs);
  rng_.Shuffle(pods);
  rng_.Shuffle(nodes);
  Ledger rebuilt(table_);
  const bool cluster_first = rng_.Chance(0.5);
  if (cluster_first) {
    rebuilt.SetCluster(ledger_->shared_cluster());
  }
  for (const NodeState& node : nodes) {
    rebuilt.SetNode(node);
  }
  const auto put_pods = [&] {
    for (const PodState& pod : pods) {
      rebuilt.PutPod(pod);
    }
  };
  const bool pods_first = rng_.Chance(0.5);
  if (pods_first) {
    put_pods();
  }
  for (const std::string& uid : gangs) {
    rebuilt.PutGang(LedgerGang(uid, gangs_[uid]));
  }
  if (!pods_first) {
    put_pods();
  }
  if (!cluster_first) {
    rebuilt.SetCluster(ledger_->shared_cluster());
  }
  return rebuilt.Digest() == ledger_->Digest() ? "" : "the rebuilt ledger has other bytes";
}

}  // namespace asterism::scheduler
