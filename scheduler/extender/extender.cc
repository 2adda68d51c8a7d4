#include "scheduler/extender/extender.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "scheduler/extender/answer_writer.h"
#include "scheduler/extender/gang_check.h"
#include "scheduler/extender/node_score.h"
#include "scheduler/extender/request_reader.h"

namespace asterism::scheduler {
namespace {

using namespace extender;  // NOLINT(build/namespaces): this file is its face

constexpr size_t kReasonsMax = 64;
constexpr std::string_view kNotReady = "ledger not ready";

// What one call needs and keeps for the next one.
struct Scratch {
  RequestReader reader;
  NodesRequest nodes;
  PreemptRequest preempt;
  std::vector<uint8_t> marks;  // passed, score or kept, by entry of the request
  std::vector<NodeReason> reasons;
};

// Name of entry `i` of a request, counting unknown names up to it; for the few that get a reason.
std::string_view NameOfEntry(const LedgerView& view, const NodeList& nodes, size_t i) {
  if (nodes.ids[i] != kNoNode) {
    return view.nodes[nodes.ids[i]].name;
  }
  const auto before =
      std::count(nodes.ids.begin(), nodes.ids.begin() + static_cast<ptrdiff_t>(i), kNoNode);
  return nodes.unknown[static_cast<size_t>(before)];
}

// Why nodes do not fit. Nodes in a row mostly fail alike, so the last text is kept.
class UnfitReasons {
 public:
  UnfitReasons(const LedgerView& view, const PodDemand& demand) : view_(view), demand_(demand) {}

  const std::string& Of(uint32_t id) {
    if (id == kNoNode) {
      return Keep(kNowhere, 0, 0, [] { return std::string("the node is not in the ledger"); });
    }
    const NodeView& node = view_.nodes[id];
    if (!node.usable) {
      return Keep(kUnusable, 0, 0,
                  [] { return std::string("the node is cordoned, not ready or tainted"); });
    }
    const SlotAmount wanted = FirstShortage(node, demand_).value_or(SlotAmount{});
    const int64_t allocatable = node.allocatable[wanted.slot];
    const int64_t used = std::max<int64_t>(node.used[wanted.slot], 0);
    return Keep(wanted.slot, allocatable, used, [&] {
      return fmt::format("{}: {} requested, {} of {} free beside pods and reserved gangs",
                         view_.resource_names[wanted.slot], wanted.amount,
                         std::max<int64_t>(0, allocatable - used), allocatable);
    });
  }

 private:
  static constexpr size_t kNowhere = kResourceSlots;
  static constexpr size_t kUnusable = kResourceSlots + 1;
  using Key = std::array<int64_t, 3>;

  template <typename Format>
  const std::string& Keep(size_t what, int64_t allocatable, int64_t used, Format format) {
    const Key key = {static_cast<int64_t>(what), allocatable, used};
    if (text_.empty() || key != key_) {
      key_ = key;
      text_ = format();
    }
    return text_;
  }

  const LedgerView& view_;
  const PodDemand& demand_;
  Key key_{};
  std::string text_;
};

}  // namespace

struct Extender::Impl {
  Impl(const base::Clock& clock_in, const base::SnapshotCell<LedgerView>& ledger_in,
       std::function<ExtenderReadiness()> readiness_in, base::MetricRegistry& registry,
       ExtenderOptions options_in);

  // Counts and times one call.
  class Call;

  std::unique_ptr<Scratch> TakeScratch();
  void GiveBack(std::unique_ptr<Scratch> scratch);
  std::shared_ptr<const NodeTable> TableOf(const LedgerView& view);
  std::shared_ptr<const NodeScores> ScoresOf(const LedgerView& view, const PodDemand& demand);

  absl::Status Filter(Call& call, std::string_view body);
  // Returns whether it is a single pod with GPUs that may go somewhere.
  absl::StatusOr<bool> Judge(Call& call, std::string_view body);
  void FilterGangPod(const LedgerView& view, Scratch& scratch);
  // Returns whether the pod asks for GPUs and some node has them.
  bool FilterSinglePod(const LedgerView& view, Scratch& scratch);
  void ScoreGangPod(const LedgerView& view, Scratch& scratch);
  void ScoreSinglePod(const LedgerView& view, Scratch& scratch);

  const base::Clock& clock;
  const base::SnapshotCell<LedgerView>& ledger;
  const std::function<ExtenderReadiness()> readiness;
  const ExtenderOptions options;

  enum Result { kOk, kError, kUnready, kResults };
  static constexpr size_t kVerbs = 3;
  std::array<std::array<base::Counter*, kResults>, kVerbs> calls{};
  std::array<base::Histogram*, kVerbs> seconds{};
  std::array<base::Counter*, kGangRefusals> refusals{};

  absl::Mutex mutex;
  std::vector<std::unique_ptr<Scratch>> idle_scratches ABSL_GUARDED_BY(mutex);
  std::shared_ptr<const NodeTable> table ABSL_GUARDED_BY(mutex);
  std::shared_ptr<const NodeScores> scores ABSL_GUARDED_BY(mutex);  // of the last demand
};

Extender::Impl::Impl(const base::Clock& clock_in, const base::SnapshotCell<LedgerView>& ledger_in,
                     std::function<ExtenderReadiness()> readiness_in,
                     base::MetricRegistry& registry, ExtenderOptions options_in)
    : clock(clock_in),
      ledger(ledger_in),
      readiness(std::move(readiness_in)),
      options(std::move(options_in)) {
  base::CounterFamily& call_family =
      registry.AddCounter("asterism_extender_calls_total",
                          "Calls of kube-scheduler by verb and result.", {"verb", "result"});
  base::HistogramFamily& second_family = registry.AddHistogram(
      "asterism_extender_seconds", "Time to compute an extender answer.", {"verb"});
  static constexpr std::array<const char*, kVerbs> kVerbNames = {"filter", "prioritize", "preempt"};
  static constexpr std::array<const char*, kResults> kResultNames = {"ok", "error", "not_ready"};
  for (size_t verb = 0; verb < kVerbs; ++verb) {
    seconds[verb] = &second_family.With({kVerbNames[verb]});
    for (size_t result = 0; result < kResults; ++result) {
      calls[verb][result] = &call_family.With({kVerbNames[verb], kResultNames[result]});
    }
  }
  base::CounterFamily& refusal_family =
      registry.AddCounter("asterism_extender_gang_pods_refused_total",
                          "Pods of gangs that filter refused, by reason.", {"reason"});
  for (size_t i = 1; i < kGangRefusals; ++i) {
    refusals[i] = &refusal_family.With({std::string(GangRefusalName(static_cast<GangRefusal>(i)))});
  }
}

class Extender::Impl::Call {
 public:
  Call(Impl& impl, Verb verb)
      : impl_(impl), verb_(static_cast<size_t>(verb)), begin_(impl.clock.SteadyNow()) {}
  ~Call() {
    impl_.calls[verb_][result_]->Add();
    impl_.seconds[verb_]->Observe(impl_.clock.SteadyNow() - begin_);
    if (scratch_ != nullptr) {
      impl_.GiveBack(std::move(scratch_));
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // The HTTP code to refuse with, or 0 with view() and scratch() ready for use.
  int Begin() {
    const ExtenderReadiness state = impl_.readiness();
    if (state == ExtenderReadiness::kReady) {
      view_ = impl_.ledger.Load();
    }
    if (view_ == nullptr) {
      result_ = kUnready;
      return state == ExtenderReadiness::kStandby ? 503 : 200;
    }
    scratch_ = impl_.TakeScratch();
    scratch_->reader.Use(impl_.TableOf(*view_));
    return 0;
  }
  void Fail() { result_ = kError; }
  // Takes the ledger of this moment; false: it is the same.
  bool Renew() {
    std::shared_ptr<const LedgerView> newest = impl_.ledger.Load();
    if (newest == view_) {
      return false;
    }
    view_ = std::move(newest);
    scratch_->reader.Use(impl_.TableOf(*view_));
    return true;
  }
  const LedgerView& view() const { return *view_; }
  Scratch& scratch() { return *scratch_; }

 private:
  Impl& impl_;
  const size_t verb_;
  const base::SteadyTime begin_;
  Result result_ = kOk;
  std::shared_ptr<const LedgerView> view_;
  std::unique_ptr<Scratch> scratch_;
};

std::unique_ptr<Scratch> Extender::Impl::TakeScratch() {
  {
    absl::MutexLock lock(&mutex);
    if (!idle_scratches.empty()) {
      std::unique_ptr<Scratch> scratch = std::move(idle_scratches.back());
      idle_scratches.pop_back();
      return scratch;
    }
  }
  return std::make_unique<Scratch>();
}

void Extender::Impl::GiveBack(std::unique_ptr<Scratch> scratch) {
  absl::MutexLock lock(&mutex);
  idle_scratches.push_back(std::move(scratch));
}

std::shared_ptr<const NodeTable> Extender::Impl::TableOf(const LedgerView& view) {
  {
    absl::MutexLock lock(&mutex);
    if (table != nullptr && table->Fits(view)) {
      return table;
    }
  }
  auto built = std::make_shared<const NodeTable>(view);
  absl::MutexLock lock(&mutex);
  table = built;
  return built;
}

std::shared_ptr<const NodeScores> Extender::Impl::ScoresOf(const LedgerView& view,
                                                           const PodDemand& demand) {
  {
    absl::MutexLock lock(&mutex);
    if (scores != nullptr && scores->AreOf(view, demand)) {
      return scores;
    }
  }
  auto built = std::make_shared<const NodeScores>(view, demand);
  absl::MutexLock lock(&mutex);
  scores = built;
  return built;
}

void Extender::Impl::FilterGangPod(const LedgerView& view, Scratch& scratch) {
  const NodeList& nodes = scratch.nodes.nodes;
  GangAnswer answer =
      CheckGangPod(view, scratch.reader.table(), scratch.nodes.pod, options.gpu_resources);
  const bool good = answer.refusal == GangRefusal::kNone;
  bool passed = false;
  for (size_t i = 0; i < nodes.ids.size(); ++i) {
    scratch.marks[i] = good && nodes.ids[i] == answer.node;
    passed = passed || scratch.marks[i] != 0;
    if (scratch.marks[i] == 0 && scratch.reasons.size() < kReasonsMax) {
      scratch.reasons.push_back(
          {NameOfEntry(view, nodes, i),
           good ? OtherNodeMessage(view, scratch.nodes.pod, answer) : answer.message});
    }
  }
  if (!passed && !nodes.ids.empty()) {
    if (good) {
      answer.refusal = GangRefusal::kOtherNode;
      answer.message = OtherNodeMessage(view, scratch.nodes.pod, answer);
    }
    refusals[static_cast<size_t>(answer.refusal)]->Add();
  }
}

bool Extender::Impl::FilterSinglePod(const LedgerView& view, Scratch& scratch) {
  const NodeList& nodes = scratch.nodes.nodes;
  const PodDemand demand = DemandOf(scratch.nodes.pod.requests, view, options.gpu_resources);
  if (!demand.gpus.has_value()) {
    // Nothing that the ledger counts: kube-scheduler's own predicates decide.
    std::fill(scratch.marks.begin(), scratch.marks.end(), uint8_t{1});
    return false;
  }
  // The scores of a whole list serve the prioritize call that follows; for a few names they do not
  // pay.
  const std::shared_ptr<const NodeScores> known =
      nodes.ids.size() >= view.nodes.size() / 4 ? ScoresOf(view, demand) : nullptr;
  UnfitReasons unfit(view, demand);
  bool passed = false;
  for (size_t i = 0; i < nodes.ids.size(); ++i) {
    const uint32_t id = nodes.ids[i];
    const bool fits =
        id != kNoNode && (known != nullptr ? known->fits(id) : Fits(view.nodes[id], demand));
    scratch.marks[i] = fits;
    passed = passed || fits;
    if (!fits && scratch.reasons.size() < kReasonsMax) {
      scratch.reasons.push_back({NameOfEntry(view, nodes, i), unfit.Of(id)});
    }
  }
  return passed;
}

absl::StatusOr<bool> Extender::Impl::Judge(Call& call, std::string_view body) {
  Scratch& scratch = call.scratch();
  RETURN_IF_ERROR(scratch.reader.ReadNodes(body, Verb::kFilter, scratch.nodes));
  scratch.marks.resize(scratch.nodes.nodes.ids.size());
  scratch.reasons.clear();
  if (scratch.nodes.pod.job_uid.empty()) {
    return FilterSinglePod(call.view(), scratch);
  }
  FilterGangPod(call.view(), scratch);
  return false;
}

absl::Status Extender::Impl::Filter(Call& call, std::string_view body) {
  ASSIGN_OR_RETURN(bool passed, Judge(call, body));
  const PodQuestion& pod = call.scratch().nodes.pod;
  if (options.in_flight == nullptr || !pod.job_uid.empty()) {
    return absl::OkStatus();
  }
  if (passed) {
    // Noted first, and then answered from a ledger that was loaded after that.
    options.in_flight->Passed(pod.uid, fmt::format("{}/{}", pod.namespace_name, pod.name));
    if (call.Renew()) {
      ASSIGN_OR_RETURN(passed, Judge(call, body));
    }
  }
  if (!passed) {
    options.in_flight->Settled(pod.uid);
  }
  return absl::OkStatus();
}

void Extender::Impl::ScoreGangPod(const LedgerView& view, Scratch& scratch) {
  const GangAnswer answer =
      CheckGangPod(view, scratch.reader.table(), scratch.nodes.pod, options.gpu_resources);
  const NodeList& nodes = scratch.nodes.nodes;
  for (size_t i = 0; i < nodes.ids.size(); ++i) {
    const bool home = answer.refusal == GangRefusal::kNone && nodes.ids[i] == answer.node;
    scratch.marks[i] = home ? 10 : 0;
  }
}

void Extender::Impl::ScoreSinglePod(const LedgerView& view, Scratch& scratch) {
  const NodeList& nodes = scratch.nodes.nodes;
  const PodDemand demand = DemandOf(scratch.nodes.pod.requests, view, options.gpu_resources);
  if (!demand.gpus.has_value()) {
    std::fill(scratch.marks.begin(), scratch.marks.end(), uint8_t{0});
    return;
  }
  const std::shared_ptr<const NodeScores> known = ScoresOf(view, demand);
  for (size_t i = 0; i < nodes.ids.size(); ++i) {
    const uint32_t id = nodes.ids[i];
    scratch.marks[i] = id == kNoNode ? uint8_t{0} : known->score(id);
  }
}

Extender::Extender(const base::Clock& clock, const base::SnapshotCell<LedgerView>& ledger,
                   std::function<ExtenderReadiness()> readiness, base::MetricRegistry& registry,
                   ExtenderOptions options)
    : impl_(std::make_unique<Impl>(clock, ledger, std::move(readiness), registry,
                                   std::move(options))) {}

Extender::~Extender() = default;

int Extender::Filter(std::string_view body, std::string& answer) {
  Impl::Call call(*impl_, Verb::kFilter);
  if (const int code = call.Begin(); code != 0) {
    WriteFilterError(kNotReady, answer);
    return code;
  }
  const Scratch& scratch = call.scratch();
  if (const absl::Status status = impl_->Filter(call, body); !status.ok()) {
    call.Fail();
    WriteFilterError(std::string(status.message()), answer);
    return 200;
  }
  WriteFilterAnswer(scratch.reader.table(), scratch.nodes, scratch.marks, scratch.reasons, answer);
  return 200;
}

int Extender::Prioritize(std::string_view body, std::string& answer) {
  Impl::Call call(*impl_, Verb::kPrioritize);
  if (call.Begin() != 0) {
    WritePlainError(kNotReady, answer);
    return 503;
  }
  Scratch& scratch = call.scratch();
  const absl::Status status = scratch.reader.ReadNodes(body, Verb::kPrioritize, scratch.nodes);
  if (!status.ok()) {
    call.Fail();
    WritePlainError(std::string(status.message()), answer);
    return 400;
  }
  scratch.marks.resize(scratch.nodes.nodes.ids.size());
  if (scratch.nodes.pod.job_uid.empty()) {
    impl_->ScoreSinglePod(call.view(), scratch);
  } else {
    impl_->ScoreGangPod(call.view(), scratch);
  }
  WritePriorities(scratch.reader.table(), scratch.nodes, scratch.marks, answer);
  return 200;
}

int Extender::Preempt(std::string_view body, std::string& answer) {
  Impl::Call call(*impl_, Verb::kPreempt);
  if (call.Begin() != 0) {
    WritePlainError(kNotReady, answer);
    return 503;
  }
  Scratch& scratch = call.scratch();
  const absl::Status status = scratch.reader.ReadPreempt(body, scratch.preempt);
  if (!status.ok()) {
    call.Fail();
    WritePlainError(std::string(status.message()), answer);
    return 400;
  }
  // Which of the victims are pods of gangs: one pass over the blocks, nothing kept.
  const std::vector<VictimsOfNode>& nodes = scratch.preempt.nodes;
  absl::flat_hash_set<std::string_view> victims;
  for (const VictimsOfNode& node : nodes) {
    victims.insert(node.uids.begin(), node.uids.end());
  }
  absl::flat_hash_set<std::string_view> gang_pods;
  for (const auto& [uid, gang] : call.view().gangs) {
    for (const GangBlockView& block : gang->blocks) {
      if (!block.pod_uid.empty() && victims.contains(block.pod_uid)) {
        gang_pods.insert(block.pod_uid);
      }
    }
  }
  scratch.marks.resize(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    scratch.marks[i] = std::none_of(nodes[i].uids.begin(), nodes[i].uids.end(),
                                    [&](std::string_view uid) { return gang_pods.contains(uid); });
  }
  WritePreemptAnswer(scratch.preempt, scratch.marks, answer);
  return 200;
}

}  // namespace asterism::scheduler
