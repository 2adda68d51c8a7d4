#include "scheduler/placement_reason.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "scheduler/amount_text.h"
#include "scheduler/nearest_change.h"
#include "scheduler/start_forecast.h"

namespace asterism::scheduler {
namespace {

// What all nodes of one product offer this gang, rules apart.
struct Offer {
  uint32_t product = 0;
  int64_t gpus = 0;           // sum
  int64_t gpus_of_node = 0;   // of the node that has most
  int64_t largest_node = -1;  // which that is
  int64_t slots = 0;          // sum
  int64_t slots_by_gpu = 0;   // sum, were GPUs the only resource
};

class ReasonWriter {
 public:
  ReasonWriter(const PlacementRequest& request, const Ledger& ledger, PlacementEngine& engine)
      : request_(request), ledger_(ledger), engine_(engine) {
    if (request.gpu_slot < kResourceSlots) {
      gpus_ = std::max<int64_t>(request.request[request.gpu_slot], 0);
    }
  }

  PlacementOutcome Explain();

 private:
  bool empty() const { return capacity_ == Capacity::kEmpty; }
  int64_t pods() const { return empty() ? request_.pods : engine_.free_pods(); }
  // "5 nodes" where a pod fills a node, else "40 GPUs", else "5 pods".
  std::string Amount(int64_t pods) const;
  std::string NodesWithGpus(int64_t count) const;
  std::string ProductSuffix(const Offer& offer) const;

  std::string LevelName(size_t level) const {
    const topology::Cluster& cluster = ledger_.cluster();
    return level < cluster.level_count() ? cluster.level_name(level) : "cluster";
  }

  Offer OfferOf(uint32_t product);
  std::optional<Offer> BestOffer();
  std::string NoProduct() const;
  std::string OtherResource(const Offer& offer);
  std::string TooLittle(const Offer& offer);
  std::string TooScattered(const Offer& offer);
  std::string NoPodFits(const Offer& offer);
  std::string BrokenRule(const Offer& offer);
  std::string ApartText() const;
  std::string RuleText(const LevelRule& rule, const Offer& offer);
  Never ExplainNever();
  NotNow ExplainNotNow();
  bool FitsOtherProduct();

  const PlacementRequest& request_;
  const Ledger& ledger_;
  PlacementEngine& engine_;
  Capacity capacity_ = Capacity::kFree;
  int64_t gpus_ = 0;  // of one pod
  bool fills_node_ = false;
};

std::string ReasonWriter::Amount(int64_t pods) const {
  if (fills_node_) {
    return Counted(pods, "node");
  }
  return gpus_ > 0 ? Counted(pods * gpus_, empty() ? "GPU" : "free GPU") : Counted(pods, "pod");
}

std::string ReasonWriter::NodesWithGpus(int64_t count) const {
  std::string text = Counted(count, "node");
  if (gpus_ > 0) {
    text += " with " + Counted(gpus_, empty() ? "GPU" : "free GPU");
  }
  return text;
}

std::string ReasonWriter::ProductSuffix(const Offer& offer) const {
  const std::string& name = ledger_.product_names()[offer.product];
  const bool told = !request_.products.empty() || engine_.products().size() > 1;
  return told && !name.empty() ? " of " + name : "";
}

Offer ReasonWriter::OfferOf(uint32_t product) {
  engine_.Fits(product, request_.pods, {});
  Offer offer;
  offer.product = product;
  const std::span<const int64_t> slots = engine_.slots();
  const std::span<const int64_t> room = engine_.room();
  for (size_t node = 0; node < slots.size(); ++node) {
    offer.slots += slots[node];
    if (gpus_ == 0) {
      continue;
    }
    offer.gpus += room[node];
    offer.slots_by_gpu += room[node] / gpus_;
    if (room[node] > offer.gpus_of_node || offer.largest_node < 0) {
      offer.gpus_of_node = room[node];
      offer.largest_node = static_cast<int64_t>(node);
    }
  }
  return offer;
}

// Of the products that the gang may have, the one with most room for it.
std::optional<Offer> ReasonWriter::BestOffer() {
  std::optional<Offer> best;
  for (const uint32_t product : engine_.products()) {
    const Offer offer = OfferOf(product);
    if (!best.has_value() ||
        std::pair(offer.slots, offer.gpus) > std::pair(best->slots, best->gpus)) {
      best = offer;
    }
  }
  return best;
}

std::string ReasonWriter::NoProduct() const {
  std::string asked;
  for (const std::string& product : request_.products) {
    asked += (asked.empty() ? "" : ", ") + product;
  }
  std::vector<std::string> names;
  for (const uint32_t index : ledger_.ProductColumn()) {
    if (index != Ledger::kNoProduct) {
      names.push_back(ledger_.product_names()[index]);
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string known;
  for (const std::string& name : names) {
    if (!name.empty()) {
      known += (known.empty() ? "" : ", ") + name;
    }
  }
  if (asked.empty() || known.empty()) {
    return asked.empty() ? "the cluster has no nodes"
                         : "no node has the GPU product " + asked + ": no product is known";
  }
  return "no node has the GPU product " + asked + ", the cluster has " + known;
}

// The resource, GPUs apart, that keeps most nodes from taking a pod.
std::string ReasonWriter::OtherResource(const Offer& offer) {
  engine_.Fits(offer.product, request_.pods, {});
  std::array<int64_t, kResourceSlots> lacking{};
  for (size_t node = 0; node < engine_.slots().size(); ++node) {
    const ResourceVector amounts =
        empty() ? ledger_.node_state(NodeId(node)).allocatable : ledger_.Free(NodeId(node));
    if (engine_.slots()[node] > 0 || engine_.room()[node] < gpus_) {
      continue;
    }
    for (size_t slot = 0; slot < kResourceSlots; ++slot) {
      if (slot != request_.gpu_slot && request_.request[slot] > 0 &&
          amounts[slot] < request_.request[slot]) {
        ++lacking[slot];
      }
    }
  }
  const auto most = std::max_element(lacking.begin(), lacking.end());
  const size_t slot = static_cast<size_t>(most - lacking.begin());
  if (*most == 0) {
    return "";
  }
  const int64_t asked = request_.request[slot];
  const std::string amount =
      slot == kCpuSlot && asked % 1000 == 0 ? Thousands(asked / 1000) : Thousands(asked);
  return fmt::format("{}{} {} too little {} ({}{} asked)", Counted(*most, "node"),
                     gpus_ > 0 ? " with the GPUs for a pod" : "", *most == 1 ? "has" : "have",
                     ledger_.resource_name(slot), amount,
                     slot == kCpuSlot && asked % 1000 != 0 ? " thousandths" : "");
}

std::string ReasonWriter::TooLittle(const Offer& offer) {
  const std::string needed = Counted(pods() * gpus_, "GPU");
  if (empty()) {
    return fmt::format("needs {}, the cluster has {}{}", needed, Thousands(offer.gpus),
                       ProductSuffix(offer));
  }
  return fmt::format("needs {}, {}{} {} free", needed, Thousands(offer.gpus), ProductSuffix(offer),
                     offer.gpus == 1 ? "is" : "are");
}

std::string ReasonWriter::NoPodFits(const Offer& offer) {
  if (gpus_ > 0 && offer.gpus_of_node < gpus_) {
    if (empty()) {
      return fmt::format("no node has {}{}, the largest has {}", Counted(gpus_, "GPU"),
                         ProductSuffix(offer), Thousands(offer.gpus_of_node));
    }
    const int64_t all = ledger_.node_state(NodeId(static_cast<size_t>(offer.largest_node)))
                            .allocatable[request_.gpu_slot];
    const std::string wanted =
        fills_node_ ? NodesWithGpus(pods())
                    : fmt::format("{} of {}", Counted(pods(), "pod"), Counted(gpus_, "GPU"));
    return fmt::format("needs {}, largest free node has {} of {}", wanted,
                       Thousands(offer.gpus_of_node), Thousands(all));
  }
  return "no node has room for a pod: " + OtherResource(offer);
}

// GPUs enough in sum, but not on nodes that can take the pods.
std::string ReasonWriter::TooScattered(const Offer& offer) {
  if (offer.slots == 0) {
    return NoPodFits(offer);
  }
  std::string text;
  if (fills_node_) {
    text = fmt::format("needs {}, {} {}", NodesWithGpus(pods()), Thousands(offer.slots),
                       offer.slots == 1 ? "has them" : "have them");
  } else {
    text = fmt::format("needs room for {}{}, {} {}", Counted(pods(), "pod"),
                       gpus_ > 0 ? " of " + Counted(gpus_, "GPU") : "", Thousands(offer.slots),
                       offer.slots == 1 ? "fits" : "fit");
  }
  if (gpus_ == 0 || offer.slots_by_gpu >= pods()) {
    const std::string other = OtherResource(offer);
    text += other.empty() ? "" : ": " + other;
  }
  return text;
}

std::string ReasonWriter::RuleText(const LevelRule& rule, const Offer& offer) {
  const std::string level = LevelName(rule.level);
  const int64_t whole = request_.pods;
  engine_.Fits(offer.product, whole, {&rule, 1});
  if (rule.block_pods >= whole) {
    int64_t best = 0;
    for (uint32_t domain = 0; domain < engine_.tree().domain_count(rule.level); ++domain) {
      best = std::max(best, engine_.SlotsIn(rule.level, domain));
    }
    if (empty()) {
      return fmt::format("needs {} in one {}, the largest has {}", Amount(whole), level,
                         Thousands(fills_node_ ? best
                                   : gpus_ > 0 ? best * gpus_
                                               : best));
    }
    if (fills_node_) {
      return fmt::format("needs {}{} in one {}; largest {} has {}, {} needed",
                         NodesWithGpus(pods()), gpus_ > 0 ? " each" : "", level, level,
                         Counted(best, "free node"), Thousands(pods()));
    }
    return fmt::format("needs {} in one {}, the best has {}", Amount(pods()), level,
                       gpus_ > 0 ? Thousands(best * gpus_) + " for such pods" : Thousands(best));
  }
  int64_t blocks = 0;
  for (uint32_t domain = 0; domain < engine_.tree().domain_count(rule.level); ++domain) {
    blocks += engine_.SlotsIn(rule.level, domain) / rule.block_pods;
  }
  const int64_t wanted = (whole + rule.block_pods - 1) / rule.block_pods;
  return fmt::format("needs {} of {}, each in one {}; there is room for {}",
                     Counted(wanted, "block"), Amount(rule.block_pods), level,
                     Thousands(std::min(blocks, wanted)));
}

// Rooms enough, but too many of them in one domain.
std::string ReasonWriter::ApartText() const {
  std::string text;
  for (const ApartRule& rule : request_.apart) {
    text += fmt::format("{}at most {} in one {}", text.empty() ? "" : " and ",
                        Counted(rule.pods_max, "pod"), LevelName(rule.level));
  }
  return fmt::format("needs {} with {}, more domains with room are needed",
                     Counted(request_.pods, "pod"), text);
}

// Adds the required rules one by one, from the innermost level outwards, until one cannot hold.
std::string ReasonWriter::BrokenRule(const Offer& offer) {
  if (!request_.apart.empty() && pods() == request_.pods &&
      !engine_.Fits(offer.product, request_.pods, {})) {
    return ApartText();
  }
  const std::vector<LevelRule>& rules = engine_.required_rules();
  for (size_t count = 1; count <= rules.size(); ++count) {
    if (!engine_.Fits(offer.product, request_.pods, {rules.data(), count})) {
      const LevelRule& rule = rules[count - 1];
      if (pods() < request_.pods) {
        return fmt::format("needs {} beside the pods that stay, in the same {}, which has no room",
                           Amount(pods()), LevelName(rule.level));
      }
      const bool alone = !engine_.Fits(offer.product, request_.pods, {&rule, 1});
      std::string text = RuleText(rule, offer);
      if (!alone) {
        text.insert(0, "the rules of all levels together leave no room: ");
      }
      return text;
    }
  }
  return "the pods that stay where they are leave no room for the others";
}

Never ReasonWriter::ExplainNever() {
  const std::optional<Offer> offer = BestOffer();
  if (!offer.has_value()) {
    return Never{NoProduct()};
  }
  if (offer->slots == 0) {
    return Never{NoPodFits(*offer)};
  }
  if (gpus_ > 0 && offer->gpus / gpus_ < request_.pods) {
    return Never{TooLittle(*offer)};
  }
  if (offer->slots < request_.pods) {
    return Never{TooScattered(*offer)};
  }
  return Never{BrokenRule(*offer)};
}

bool ReasonWriter::FitsOtherProduct() {
  if (request_.products.empty() || engine_.free_pods() < request_.pods) {
    return false;
  }
  PlacementRequest any = request_;
  any.products.clear();
  engine_.Prepare(any, ledger_, Capacity::kFree);
  const bool fits = engine_.FitsRequired(any.pods);
  engine_.Prepare(request_, ledger_, Capacity::kFree);
  return fits;
}

NotNow ReasonWriter::ExplainNotNow() {
  NotNow result;
  const bool other_product = FitsOtherProduct();
  const std::optional<Offer> offer = BestOffer();
  if (!offer.has_value()) {
    result.reason = WaitReason::kProductUnavailable;
    result.message = NoProduct();
  } else if (gpus_ > 0 && offer->gpus / gpus_ < pods()) {
    result.reason = other_product ? WaitReason::kProductUnavailable : WaitReason::kNoCapacity;
    result.message = TooLittle(*offer);
  } else if (offer->slots < pods()) {
    result.reason = other_product ? WaitReason::kProductUnavailable
                    : gpus_ == 0  ? WaitReason::kNoCapacity
                                  : WaitReason::kFragmented;
    result.message = TooScattered(*offer);
  } else {
    result.reason = other_product ? WaitReason::kProductUnavailable : WaitReason::kLevelUnavailable;
    result.message = BrokenRule(*offer);
  }
  if (!request_.excluded.empty()) {
    result.message += fmt::format(" ({} left out, because this gang failed there)",
                                  Counted(static_cast<int64_t>(request_.excluded.size()), "node"));
  }
  result.nearest_change = NearestChange(request_, ledger_, engine_);
  result.predicted_start = PredictStart(request_, ledger_, engine_);
  return result;
}

PlacementOutcome ReasonWriter::Explain() {
  engine_.Prepare(request_, ledger_, Capacity::kEmpty);
  capacity_ = Capacity::kEmpty;
  const bool fits_empty = engine_.FitsRequired(request_.pods);
  // Words like "5 nodes" are right where no node takes two pods.
  int64_t most_pods = 0;
  for (const uint32_t product : engine_.products()) {
    engine_.Fits(product, request_.pods, {});
    for (const int64_t slots : engine_.slots()) {
      most_pods = std::max(most_pods, slots);
    }
  }
  fills_node_ = most_pods <= 1;
  if (!fits_empty) {
    return ExplainNever();
  }
  capacity_ = Capacity::kFree;
  engine_.Prepare(request_, ledger_, Capacity::kFree);
  return ExplainNotNow();
}

}  // namespace

PlacementOutcome ExplainFailure(const PlacementRequest& request, const Ledger& ledger,
                                PlacementEngine& engine) {
  return ReasonWriter(request, ledger, engine).Explain();
}

PlacementOutcome ExplainSpares(const PlacementRequest& request, const Ledger& ledger,
                               PlacementEngine& engine, int64_t spares) {
  Placed empty;
  engine.Prepare(request, ledger, Capacity::kEmpty);
  const bool ever = engine.Choose() && engine.Assign(empty) &&
                    static_cast<int64_t>(empty.spares.size()) >= request.spares;
  const auto text = [&](int64_t found) {
    return fmt::format("needs {} beside its {}, on other nodes; {} {} a place",
                       Counted(request.spares, "spare"), Counted(request.pods, "pod"),
                       Thousands(found), found == 1 ? "has" : "have");
  };
  if (!ever) {
    return Never{text(static_cast<int64_t>(empty.spares.size()))};
  }
  return NotNow{WaitReason::kNoCapacity, text(spares), "", std::nullopt};
}

}  // namespace asterism::scheduler
