// What a job's visit does to its homes: the pass over the gang queue, restart, move, withdrawal.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "fmt/format.h"
#include "operator/conditions.h"
#include "operator/job_controller.h"
#include "operator/placement_outcome.h"

namespace asterism::operators {
namespace {

constexpr absl::Duration kPassSettle = absl::Milliseconds(5);
constexpr absl::Duration kWithdrawBackOff = absl::Seconds(5);
constexpr absl::Duration kWithdrawBackOffMax = absl::Seconds(300);
constexpr absl::Duration kExpectedDurationMax = absl::Hours(24 * 36'500);  // keeps times finite
constexpr absl::Duration kSparesLook = absl::Seconds(5);  // between two searches for missing ones

std::string DigestOf(const std::vector<scheduler::RankBlock>& blocks) {
  uint64_t hash = base::kFnv1aSeed;
  for (const scheduler::RankBlock& block : blocks) {
    hash = base::Fnv1a(fmt::format("{} {} {}\n", block.first_rank, block.node, block.epoch), hash);
  }
  return fmt::format("{:016x}", hash);
}

std::vector<scheduler::Spare> SparesFrom(const scheduler::Placed& placed,
                                         const topology::Cluster& cluster, int64_t epoch) {
  std::vector<scheduler::Spare> spares;
  for (const topology::NodeId node : placed.spares) {
    spares.push_back({cluster.node_name(node), epoch});
  }
  return spares;
}

// Who runs for longer than expected: nobody knows when the one who waits for that may start.
std::optional<absl::Time> StillAhead(std::optional<absl::Time> predicted, absl::Time now) {
  return predicted.has_value() && *predicted > now ? predicted : std::nullopt;
}

// By the user's estimate, from when it ran first; one that does not run yet starts about now.
std::optional<absl::Time> ExpectedEndOf(const JobState& state, absl::Time now) {
  const std::optional<int64_t> seconds = state.object->spec.expected_duration_seconds;
  if (!seconds.has_value()) {
    return std::nullopt;
  }
  return state.status.start_time.value_or(now) +
         std::min(absl::Seconds(*seconds), kExpectedDurationMax);
}

}  // namespace

void JobController::RequestPass() {
  if (!pass_timer_.pending()) {
    pass_timer_.Start(kPassSettle, [this] { RunPass(); });
  }
}

void JobController::RunPass() {
  if (dispatcher_.size() == 0) {
    return;
  }
  feed_.Refresh();
  dispatcher_.Pass([this](const DispatchResult& result) { OnDispatched(result); });
}

void JobController::OnDispatched(const DispatchResult& result) {
  const std::string uid(result.uid);
  const auto found = jobs_.find(uid);
  if (found == jobs_.end()) {
    dispatcher_.Remove(uid);
    return;
  }
  JobState& state = *found->second;
  if (result.asked) {
    metrics_.decide_seconds.With({}).Observe(result.decide);
  }
  if (const auto* placed = std::get_if<scheduler::Placed>(&result.outcome);
      placed != nullptr && !result.refusal) {
    metrics_.decisions.With({"placed"}).Add();
    dispatcher_.Remove(uid);
    state.status.timings = {.queued_ms =
                                absl::ToInt64Milliseconds(clock_.SteadyNow() - state.queued_since)};
    state.spares = SparesFrom(*placed, feed_.ledger().cluster(), state.status.placement.epoch + 1);
    ApplyPlacement(state, *placed, std::vector<bool>(placed->nodes.size(), true), result.decide);
    MarkDirty(uid);
    return;
  }
  const NoPlace no_place =
      result.refusal ? NoPlace{result.refusal->reason, result.refusal->message, "", std::nullopt}
                     : NoPlaceOf(result.outcome);
  metrics_.decisions.With({no_place.reason}).Add();
  WaitingStatus& waiting = state.status.waiting;
  if (waiting.reason != no_place.reason) {
    record_(*state.object, {.warning = no_place.reason == wait_reason::kNeverFits,
                            .reason = "Waiting",
                            .message = fmt::format("{}: {}", no_place.reason, no_place.message)});
  }
  waiting = {.reason = no_place.reason,
             .message = no_place.message,
             .queue_position = static_cast<int64_t>(result.position),
             .nearest_change = no_place.nearest_change,
             .predicted_start = StillAhead(no_place.predicted_start, clock_.Now())};
  SetCondition(state.status.conditions,
               {.type = kPlaced,
                .status = "False",
                .reason = no_place.reason,
                .message = no_place.message,
                .observed_generation = state.meta().generation},
               clock_.Now());
  WriteStatus(state);
}

// `moved[i]`: block i gets its home (and its epoch) by this placement.
void JobController::ApplyPlacement(JobState& state, const scheduler::Placed& placed,
                                   const std::vector<bool>& moved, absl::Duration decide) {
  TrainingJobStatus& status = state.status;
  const topology::Cluster& cluster = feed_.ledger().cluster();
  ++status.placement.epoch;
  state.create_errors.clear();
  state.fallback.clear();
  // Somebody may have deleted them since.
  state.companions.clear();
  state.service_confirmed = false;
  state.blocks.resize(placed.nodes.size());
  for (size_t i = 0; i < placed.nodes.size(); ++i) {
    if (moved[i]) {
      state.blocks[i] = {
          .first_rank = static_cast<int64_t>(i) * state.admission.shape.processes_per_pod,
          .node = cluster.node_name(placed.nodes[i]),
          .epoch = status.placement.epoch};
    }
  }
  status.placement.runs = RunsOf(state.blocks, state.admission.shape.processes_per_pod,
                                 [&](std::string_view node) { return DomainOf(node, cluster); });
  status.placement.digest = DigestOf(state.blocks);
  status.placement.levels = LevelsOf(placed, cluster);
  status.placement.spares = SpareRunsOf(state.spares);
  std::string spread;
  for (const PlacementLevelStatus& use : status.placement.levels) {
    spread += fmt::format("{}{} {}", spread.empty() ? "" : ", ", use.domains, use.level);
  }
  const auto pods = static_cast<int64_t>(state.blocks.size());
  status.waiting = {};
  status.placed = fmt::format("{}/{}", pods, pods);
  status.gpus = pods * state.admission.shape.gpus_per_pod;
  status.selector = fmt::format("{}={}", kJobUidLabel, state.meta().uid);
  status.effective.gpu_product = placed.product;
  status.timings.decide_us = absl::ToInt64Microseconds(decide);
  SetCondition(status.conditions,
               {.type = kPlaced,
                .status = "True",
                .reason = "Placed",
                .message = fmt::format("domains: {}", spread),
                .observed_generation = state.meta().generation},
               clock_.Now());
  status.state = StateOf(status, /*placed=*/true);
  // Stages are what the control plane needs; the back-off that a restart asks for is none of them.
  state.placed_at = std::max(clock_.SteadyNow(), state.start_after);
  BookGang(state);
  // The extender must know the home before the first pod asks for it.
  feed_.Publish();
  record_(*state.object,
          {.reason = "Placed",
           .message = fmt::format(
               "{} pods{}, epoch {}, domains: {}", pods,
               state.spares.empty() ? "" : fmt::format(" and {} spares", state.spares.size()),
               status.placement.epoch, spread)});
  base::LogInfo("gang_placed", {{"gang", state.meta().Key()},
                                {"epoch", status.placement.epoch},
                                {"pods", pods},
                                {"decide_us", absl::ToInt64Microseconds(decide)}});
  WriteStatus(state);
}

void JobController::BookGang(JobState& state) {
  const Admission& admission = state.admission;
  feed_.ledger().PutGang({.uid = state.meta().uid,
                          .name = state.meta().Key(),
                          .queue = state.object->spec.queue,
                          .product = state.status.effective.gpu_product,
                          .epoch = state.status.placement.epoch,
                          .ranks_per_block = admission.shape.processes_per_pod,
                          .gpus_per_block = admission.shape.gpus_per_pod,
                          .gpu_slot = admission.request.gpu_slot,
                          .request = admission.request.request,
                          .blocks = state.blocks,
                          .spares = state.spares,
                          .expected_end = ExpectedEndOf(state, clock_.Now())});
}

// What a spare is held for can happen: its node takes pods, and others have left room for it. Pods
// of the gang that are on their way out are none of the others.
bool JobController::SpareHolds(const JobState& state, const scheduler::Spare& spare) const {
  const scheduler::Ledger& ledger = feed_.ledger();
  const topology::NodeId node = ledger.cluster().FindNode(spare.node);
  const size_t slot = state.admission.request.gpu_slot;
  if (!node.valid() || ledger.PlaceableColumn()[node.index()] == 0) {
    return false;
  }
  if (ledger.FreeColumn(slot)[node.index()] >= 0) {
    return true;
  }
  const auto there = std::count_if(state.spares.begin(), state.spares.end(),
                                   [&](const auto& other) { return other.node == spare.node; });
  return ledger.Free(node)[slot] + ledger.HeldBy(state.meta().uid, node)[slot] >=
         there * state.admission.shape.gpus_per_pod;
}

void JobController::LookAfterSpares(JobState& state) {
  const auto wanted = static_cast<size_t>(state.admission.request.spares);
  if (state.blocks.empty() || !state.admission.builder || state.admission.refusal) {
    return;
  }
  std::vector<scheduler::Spare> kept;
  std::vector<scheduler::Spare> lost;  // their node may come back
  for (const scheduler::Spare& spare : state.spares) {
    if (SpareHolds(state, spare)) {
      kept.push_back(spare);
    } else if (const topology::NodeId node = feed_.ledger().cluster().FindNode(spare.node);
               node.valid() && feed_.ledger().PlaceableColumn()[node.index()] == 0 &&
               feed_.HasNode(spare.node)) {
      lost.push_back(spare);
    }
  }
  if (kept.size() < wanted) {
    FindSpares(state, kept);
    kept.insert(kept.end(), lost.begin(), lost.end());
  }
  kept.resize(std::min(kept.size(), wanted));
  TakeSpares(state, std::move(kept));
}

// Adds to `kept` what there is room for.
void JobController::FindSpares(JobState& state, std::vector<scheduler::Spare>& kept) {
  const base::SteadyTime now = clock_.SteadyNow();
  Remind(state, kSparesLook);
  if (now < state.spares_looked + kSparesLook) {
    return;
  }
  feed_.Refresh();
  const auto versions = std::pair(feed_.ledger().node_version(), feed_.ledger().room_version());
  if (versions == state.spares_looked_versions) {
    return;  // where nothing has changed there is no room still
  }
  state.spares_looked = now;
  state.spares_looked_versions = versions;
  scheduler::PlacementRequest request = RequestOf(state);
  request.spares_required = false;
  for (const scheduler::RankBlock& block : state.blocks) {
    request.kept.push_back(block.node);
  }
  for (const scheduler::Spare& spare : kept) {
    request.spares_kept.push_back(spare.node);
  }
  const scheduler::PlacementOutcome outcome = scheduler::Place(request, feed_.ledger());
  if (const auto* placed = std::get_if<scheduler::Placed>(&outcome)) {
    const std::vector<scheduler::Spare> chosen =
        SparesFrom(*placed, feed_.ledger().cluster(), state.status.placement.epoch);
    kept.insert(kept.end(), chosen.begin() + static_cast<std::ptrdiff_t>(kept.size()),
                chosen.end());
  }
}

void JobController::TakeSpares(JobState& state, std::vector<scheduler::Spare> spares) {
  if (spares == state.spares) {
    return;
  }
  base::LogInfo("spares_changed", {{"gang", state.meta().Key()},
                                   {"before", static_cast<uint64_t>(state.spares.size())},
                                   {"after", static_cast<uint64_t>(spares.size())}});
  state.spares = std::move(spares);
  state.status.placement.spares = SpareRunsOf(state.spares);
  BookGang(state);
  feed_.Publish();
  RequestPass();
}

// The admission's request as of now: which classes of nodes there are changes with their labels.
scheduler::PlacementRequest JobController::RequestOf(const JobState& state) {
  scheduler::PlacementRequest request = state.admission.request;
  request.node_classes = feed_.node_classes().Allowed(state.admission.fit);
  request.excluded = state.excluded;
  return request;
}

void JobController::EnqueueGang(JobState& state) {
  scheduler::PlacementRequest request = state.admission.request;
  request.excluded = state.excluded;
  dispatcher_.Enqueue({.queued = {.uid = state.meta().uid,
                                  .name = state.meta().Key(),
                                  .queue = state.object->spec.queue,
                                  .priority = state.admission.priority,
                                  .created = state.meta().creation_time,
                                  .gpus = state.admission.shape.gpus_held()},
                       .request = std::move(request),
                       .fit = state.admission.fit});
}

// The gang keeps what it holds while a new placement is looked for, so nobody takes its room in
// between; only when it does not fit any more it goes back to the queue.
void JobController::CarryOutRestart(JobState& state, const Restart& restart) {
  metrics_.restarts.With({restart.cause.reason}).Add();
  base::LogWarning("gang_restarts", {{"gang", state.meta().Key()},
                                     {"reason", restart.cause.reason},
                                     {"message", restart.decision.message}});
  state.start_after = clock_.SteadyNow() + restart.decision.backoff;
  feed_.Refresh();
  scheduler::PlacementRequest request = RequestOf(state);
  if (restart.cause.reason == "NodeFailure") {
    request.excluded.push_back(restart.cause.node);
  }
  request.spares_required = false;  // this is what they are for
  const base::SteadyTime begin = clock_.SteadyNow();
  const scheduler::PlacementOutcome outcome = scheduler::Place(request, feed_.ledger());
  if (const auto* placed = std::get_if<scheduler::Placed>(&outcome)) {
    state.spares = SparesFrom(*placed, feed_.ledger().cluster(), state.status.placement.epoch + 1);
    ApplyPlacement(state, *placed, std::vector<bool>(placed->nodes.size(), true),
                   clock_.SteadyNow() - begin);
    return;
  }
  const NoPlace no_place = NoPlaceOf(outcome);
  LosePlacement(state, no_place.reason, no_place.message);
  MarkDirty(state.meta().uid);
}

// Moved blocks go to the nodes of spares only where there is no other room.
scheduler::PlacementOutcome JobController::PlaceBesideSpares(
    const JobState& state, scheduler::PlacementRequest request) const {
  const size_t excluded = request.excluded.size();
  for (const scheduler::Spare& spare : state.spares) {
    request.excluded.push_back(spare.node);
  }
  scheduler::PlacementOutcome outcome = scheduler::Place(request, feed_.ledger());
  if (!state.spares.empty() && !std::holds_alternative<scheduler::Placed>(outcome)) {
    request.excluded.resize(excluded);
    outcome = scheduler::Place(request, feed_.ledger());
  }
  return outcome;
}

void JobController::CarryOutMoves(JobState& state, const std::vector<BlockMove>& moves) {
  std::vector<bool> moved(state.blocks.size(), false);
  for (const BlockMove& move : moves) {
    moved[move.block] = true;
    if (std::find(state.excluded.begin(), state.excluded.end(), state.blocks[move.block].node) ==
        state.excluded.end()) {
      state.excluded.push_back(state.blocks[move.block].node);
    }
    metrics_.moves.With({}).Add();
  }
  feed_.Refresh();
  scheduler::PlacementRequest request = RequestOf(state);
  request.kept.resize(state.blocks.size());
  for (size_t i = 0; i < state.blocks.size(); ++i) {
    request.kept[i] = moved[i] ? "" : state.blocks[i].node;
  }
  request.spares = 0;
  const base::SteadyTime begin = clock_.SteadyNow();
  const scheduler::PlacementOutcome outcome = PlaceBesideSpares(state, request);
  if (const auto* placed = std::get_if<scheduler::Placed>(&outcome)) {
    std::erase_if(state.spares, [&](const scheduler::Spare& spare) {
      const topology::NodeId node = feed_.ledger().cluster().FindNode(spare.node);
      return std::find(placed->nodes.begin(), placed->nodes.end(), node) != placed->nodes.end();
    });
    base::LogWarning("blocks_moved", {{"gang", state.meta().Key()},
                                      {"blocks", static_cast<uint64_t>(moves.size())},
                                      {"reason", moves[0].message}});
    ApplyPlacement(state, *placed, moved, clock_.SteadyNow() - begin);
    return;
  }
  Withdraw(state, wait_reason::kBindFailed,
           fmt::format("{} of {} pods could not be bound and found no other node; the first: {}",
                       moves.size(), state.blocks.size(), moves[0].message));
}

// All or none: what was created is taken back, the job waits and tries again later.
void JobController::Withdraw(JobState& state, std::string_view reason, const std::string& message) {
  if (state.status.placement.runs.empty()) {
    return;  // withdrawn already: of a burst of failures the first one counts
  }
  metrics_.withdrawn.With({std::string(reason)}).Add();
  base::LogWarning(
      "gang_withdrawn",
      {{"gang", state.meta().Key()}, {"reason", std::string(reason)}, {"message", message}});
  record_(
      *state.object,
      {.warning = true, .reason = "Waiting", .message = fmt::format("{}: {}", reason, message)});
  const int doublings = std::min(state.withdrawals++, 6);
  state.start_after =
      clock_.SteadyNow() + std::min(kWithdrawBackOff * (1 << doublings), kWithdrawBackOffMax);
  state.excluded.clear();
  state.create_errors.clear();
  LosePlacement(state, std::string(reason), message);
  MarkDirty(state.meta().uid);
}

void JobController::LosePlacement(JobState& state, const std::string& reason,
                                  const std::string& message) {
  TrainingJobStatus& status = state.status;
  status.placement.runs.clear();
  status.placement.levels.clear();
  status.placement.digest.clear();
  status.placement.spares.clear();
  status.gpus = 0;
  status.placed = fmt::format("0/{}", state.admission.shape.pods);
  status.waiting = {.reason = reason, .message = message};
  for (const std::string_view type : {kPlaced, kBound, kRunning}) {
    SetCondition(status.conditions,
                 {.type = type,
                  .status = "False",
                  .reason = reason,
                  .message = message,
                  .observed_generation = state.meta().generation},
                 clock_.Now());
  }
  status.state = StateOf(status, /*placed=*/false);
  if (state.writer.acknowledged.placement.runs.empty() && !state.writer.in_flight) {
    Release(state);  // nobody was ever told of these homes
  }
  WriteStatus(state);
}

void JobController::Release(JobState& state) {
  if (state.blocks.empty()) {
    return;
  }
  state.blocks.clear();
  state.spares.clear();
  feed_.ledger().RemoveGang(state.meta().uid);
  feed_.Publish();
  RequestPass();
}

}  // namespace asterism::operators
