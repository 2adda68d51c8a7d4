#include "operator/failure_policy.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

#include "base/check.h"
#include "base/cut_text.h"
#include "fmt/format.h"
#include "operator/json_fields.h"

namespace asterism::operators {
namespace {

constexpr std::string_view kNodeFailure = "NodeFailure";
constexpr std::string_view kPreempted = "Preempted";
constexpr std::string_view kOomKilled = "OOMKilled";
constexpr std::string_view kAppError = "AppError";

constexpr int32_t kSignalKill = 9;
constexpr int32_t kSignalTerminate = 15;
constexpr int64_t kBackoffSecondsMax = 300;
constexpr size_t kQuoteBytesMax = 256;

struct Meaning {
  std::string_view word;
  std::string_view reason;
};

// Reasons of the condition DisruptionTarget (core/v1 types.go, KEP-3329).
constexpr std::array<Meaning, 6> kDisruptions = {{{"DeletionByTaintManager", kNodeFailure},
                                                  {"DeletionByPodGC", kNodeFailure},
                                                  {"TerminationByKubelet", kNodeFailure},
                                                  {"PreemptionByScheduler", kPreempted},
                                                  {"PreemptionByKubeScheduler", kPreempted},
                                                  {"EvictionByEvictionAPI", kPreempted}}};

// Values of status.reason that the kubelet and the node controller write.
constexpr std::array<Meaning, 11> kPodReasons = {{{"NodeLost", kNodeFailure},
                                                  {"NodeShutdown", kNodeFailure},
                                                  {"Shutdown", kNodeFailure},
                                                  {"Terminated", kNodeFailure},
                                                  {"NodeAffinity", kNodeFailure},
                                                  {"NodePorts", kNodeFailure},
                                                  {"InvalidNodeInfo", kNodeFailure},
                                                  {"UnexpectedAdmissionError", kNodeFailure},
                                                  {"TopologyAffinityError", kNodeFailure},
                                                  {"Evicted", kPreempted},
                                                  {"Preempting", kPreempted}}};

template <size_t size>
std::string_view ReasonFor(std::string_view word, const std::array<Meaning, size>& table) {
  for (const Meaning& meaning : table) {
    if (meaning.word == word) {
      return meaning.reason;
    }
  }
  return {};
}

struct Evidence {
  std::string_view reason;
  absl::Time time;
  bool exited = false;  // a container ended with an error
  std::optional<int32_t> exit_code;
  std::optional<int32_t> signal;
  std::optional<int64_t> rank;  // where it is not the pod's first
  std::optional<int32_t> container_exit_code;
  std::string story;  // goes on after "rank 64 (pod x on gpu-0008) "
};

// Foreign text inside a message: one line, bounded.
std::string Quote(std::string_view text) {
  std::string line(base::CutText(text, kQuoteBytesMax));
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      c = ' ';
    }
  }
  const size_t end = line.find_last_not_of(' ');
  return line.substr(0, end == std::string::npos ? 0 : end + 1);
}

std::string WithDetail(std::string story, std::string_view detail) {
  const std::string quote = Quote(detail);
  return quote.empty() ? story : fmt::format("{}: {}", story, quote);
}

// The container that ended with an error: the training container, else the first one to end.
const kube::TerminatedContainer* FindExit(const LostPod& lost) {
  const kube::TerminatedContainer* first = nullptr;
  for (const kube::TerminatedContainer& container : lost.pod->terminated) {
    if (container.exit_code == 0 && container.signal == 0) {
      continue;
    }
    if (!lost.container_name.empty() && container.name == lost.container_name) {
      return &container;
    }
    if (first == nullptr || container.finished_at < first->finished_at) {
      first = &container;
    }
  }
  return first;
}

std::optional<int32_t> SignalOf(const kube::TerminatedContainer& exit) {
  if (exit.signal != 0) {
    return exit.signal;
  }
  // The shell's and the container runtimes' way to say signal n.
  if (exit.exit_code > 128 && exit.exit_code <= 128 + 64) {
    return exit.exit_code - 128;
  }
  return std::nullopt;
}

std::string_view NameOfSignal(int32_t signal) {
  switch (signal) {
    case 6:
      return "SIGABRT";
    case 7:
      return "SIGBUS";
    case 8:
      return "SIGFPE";
    case kSignalKill:
      return "SIGKILL";
    case 11:
      return "SIGSEGV";
    case kSignalTerminate:
      return "SIGTERM";
    default:
      return {};
  }
}

Evidence FromDisruption(const kube::Condition& condition, bool node_gone) {
  Evidence evidence;
  evidence.reason = ReasonFor(condition.reason, kDisruptions);
  if (evidence.reason.empty()) {
    evidence.reason = node_gone ? kNodeFailure : kPreempted;
  }
  evidence.time = condition.last_transition_time;
  const std::string_view verb =
      evidence.reason == kNodeFailure ? "was lost with its node" : "was preempted";
  evidence.story =
      WithDetail(fmt::format("{} ({})", verb, Quote(condition.reason)), condition.message);
  return evidence;
}

Evidence FromPodReason(const kube::Pod& pod, std::string_view reason, absl::Time now) {
  Evidence evidence;
  evidence.reason = reason;
  evidence.time = now;
  for (const kube::TerminatedContainer& container : pod.terminated) {
    evidence.time = std::min(evidence.time, container.finished_at);
  }
  const std::string_view verb =
      reason == kNodeFailure ? "could not stay on its node" : "was evicted";
  evidence.story = WithDetail(fmt::format("{} ({})", verb, Quote(pod.reason)), pod.message);
  return evidence;
}

std::string ExitStory(std::optional<int32_t> code, std::optional<int32_t> signal) {
  std::string story = fmt::format("exited with code {}", code.value_or(-1));
  if (signal.has_value()) {
    const std::string_view name = NameOfSignal(*signal);
    story += name.empty() ? fmt::format(" (signal {})", *signal) : fmt::format(" ({})", name);
  }
  return story;
}

Evidence FromExit(const kube::TerminatedContainer& exit) {
  Evidence evidence;
  evidence.time = exit.finished_at;
  evidence.exited = true;
  evidence.signal = SignalOf(exit);
  if (exit.reason == "ContainerStatusUnknown") {
    // The kubelet lost the container and made the exit code up.
    evidence.reason = kNodeFailure;
    evidence.story = WithDetail("was lost by its kubelet", exit.message);
    return evidence;
  }
  evidence.exit_code = exit.exit_code;
  if (exit.reason == kOomKilled) {
    evidence.reason = kOomKilled;
    evidence.story = WithDetail(
        fmt::format("ran out of memory and exited with code {}", exit.exit_code), exit.message);
    return evidence;
  }
  evidence.reason = kAppError;
  evidence.story = WithDetail(ExitStory(exit.exit_code, evidence.signal), exit.message);
  return evidence;
}

// What the launcher saw of the end of a program, as far as it can be true.
Evidence WithReport(Evidence evidence, const LostPod& lost) {
  constexpr absl::Duration kClocksAgree = absl::Seconds(10);  // kubelet's times are whole seconds
  const WorkerReport* report = lost.report;
  if (report == nullptr || !report->exit.has_value() ||
      absl::AbsDuration(report->exit->time - evidence.time) > kClocksAgree) {
    return evidence;
  }
  evidence.time = report->exit->time;
  const std::optional<ProcessEnd>& first = report->first_cause;
  if (!first.has_value() || first->time < lost.pod->meta.creation_time - kClocksAgree ||
      first->time > report->exit->time) {
    return evidence;
  }
  evidence.time = first->time;
  if (first->rank.has_value() && *first->rank >= lost.first_rank &&
      *first->rank < lost.first_rank + lost.ranks) {
    evidence.container_exit_code = evidence.exit_code;
    evidence.rank = first->rank;
    evidence.exit_code = first->exit_code;
    evidence.signal = first->signal;
    evidence.story = fmt::format("ended first: it {}; then its pod {}",
                                 ExitStory(first->exit_code, first->signal), evidence.story);
  }
  return evidence;
}

// The command has ended, and kubelet has not said so yet.
Evidence FromReport(const LostPod& lost, absl::Time now) {
  const ProcessEnd& exit = *lost.report->exit;
  Evidence evidence{.reason = kAppError,
                    .time = std::clamp(exit.time, std::min(lost.pod->meta.creation_time, now), now),
                    .exited = true};
  evidence.exit_code = exit.exit_code;
  evidence.signal = exit.signal;
  evidence.story = ExitStory(evidence.exit_code, evidence.signal);
  return WithReport(std::move(evidence), lost);
}

Evidence FromDisappearance(const LostPod& lost, absl::Time now) {
  Evidence evidence;
  evidence.reason = lost.node_gone ? kNodeFailure : kPreempted;
  evidence.time = now;
  if (lost.pod != nullptr && lost.pod->Deleting()) {
    evidence.time = *lost.pod->meta.deletion_time;
  }
  evidence.story = lost.node_gone ? "was lost with its node" : "was deleted";
  return evidence;
}

// A deleted pod ends with a signal from its kubelet; that is no failure of the program.
bool EndedByDeletion(const kube::Pod& pod, const kube::TerminatedContainer& exit) {
  const std::optional<int32_t> signal = SignalOf(exit);
  return pod.Deleting() && (signal == kSignalKill || signal == kSignalTerminate) &&
         exit.reason != kOomKilled;
}

Evidence Judge(const LostPod& lost, absl::Time now) {
  if (lost.pod == nullptr) {
    return FromDisappearance(lost, now);
  }
  const kube::Pod& pod = *lost.pod;
  const kube::Condition* disruption = kube::FindCondition(pod.conditions, "DisruptionTarget");
  if (disruption != nullptr && disruption->status == "True") {
    return FromDisruption(*disruption, lost.node_gone);
  }
  std::string_view reason = ReasonFor(pod.reason, kPodReasons);
  if (reason.empty() && pod.reason.starts_with("OutOf")) {
    reason = kNodeFailure;  // OutOfcpu, OutOfnvidia.com/gpu: the kubelet's admission
  }
  if (!reason.empty()) {
    return FromPodReason(pod, reason, now);
  }
  const kube::TerminatedContainer* exit = FindExit(lost);
  if (exit != nullptr && !EndedByDeletion(pod, *exit)) {
    return WithReport(FromExit(*exit), lost);
  }
  if (pod.phase != "Failed" && !pod.Deleting() && EndedBadly(lost.report)) {
    return FromReport(lost, now);
  }
  if (lost.node_gone || pod.Deleting() || pod.phase != "Failed") {
    return FromDisappearance(lost, now);
  }
  Evidence evidence{.reason = kAppError, .time = now};
  evidence.story = WithDetail("failed", pod.message.empty() ? pod.reason : pod.message);
  return evidence;
}

FirstCause ToCause(const LostPod& lost, const Evidence& evidence) {
  const std::string& pod =
      lost.pod_name.empty() && lost.pod != nullptr ? lost.pod->meta.name : lost.pod_name;
  const std::string& node =
      lost.node.empty() && lost.pod != nullptr ? lost.pod->node_name : lost.node;
  const std::string place = node.empty() ? "" : fmt::format(" on {}", node);
  return {.time = evidence.time,
          .reason = std::string(evidence.reason),
          .message = fmt::format("rank {} (pod {}{}) {}", evidence.rank.value_or(lost.first_rank),
                                 pod, place, evidence.story),
          .rank = evidence.rank.value_or(lost.first_rank),
          .pod = pod,
          .node = node,
          .exit_code = evidence.exit_code,
          .signal = evidence.signal,
          .container_exit_code = evidence.container_exit_code};
}

bool Matches(const FailureRule& rule, const FirstCause& cause) {
  if (rule.on_reason.has_value() && *rule.on_reason != cause.reason) {
    return false;
  }
  if (rule.exit_codes.empty()) {
    return true;
  }
  const auto stands = [&rule](const std::optional<int32_t>& code) {
    return code.has_value() && std::find(rule.exit_codes.begin(), rule.exit_codes.end(), *code) !=
                                   rule.exit_codes.end();
  };
  return (cause.reason == kAppError || cause.reason == kOomKilled) &&
         (stands(cause.exit_code) || stands(cause.container_exit_code));
}

absl::Duration Backoff(const FailurePolicy& policy, int64_t counted) {
  int64_t seconds = std::clamp<int64_t>(policy.backoff_seconds, 0, kBackoffSecondsMax);
  for (int64_t i = 1; i < counted && seconds > 0 && seconds < kBackoffSecondsMax; ++i) {
    seconds *= 2;
  }
  return absl::Seconds(std::min(seconds, kBackoffSecondsMax));
}

}  // namespace

bool RefusedByKubelet(const kube::Pod& pod) {
  // Admission of the kubelet: pkg/kubelet/lifecycle/predicate.go and the topology manager.
  constexpr std::array<std::string_view, 6> kRefusals = {
      "NodeAffinity",          "NodePorts",       "UnexpectedAdmissionError",
      "TopologyAffinityError", "InvalidNodeInfo", "PodOSSelectorNodeLabelDoesNotMatch"};
  return pod.phase == "Failed" && pod.terminated.empty() &&
         (pod.reason.starts_with("OutOf") ||
          std::find(kRefusals.begin(), kRefusals.end(), pod.reason) != kRefusals.end());
}

FirstCause FindFirstCause(const std::vector<LostPod>& lost, absl::Time now) {
  CHECK_THAT(!lost.empty(), "a first cause needs a lost pod");
  const LostPod* first = nullptr;
  Evidence cause;
  for (const LostPod& candidate : lost) {
    Evidence evidence = Judge(candidate, now);
    // Clocks of nodes run ahead, and a deletion time lies a grace period ahead.
    evidence.time = std::min(evidence.time, now);
    const auto key = [](const Evidence& of, const LostPod& pod) {
      return std::tuple(of.time, !of.exited, pod.seen, pod.first_rank);
    };
    if (first == nullptr || key(evidence, candidate) < key(cause, *first)) {
      first = &candidate;
      cause = std::move(evidence);
    }
  }
  return ToCause(*first, cause);
}

RestartDecision DecideRestart(const FailurePolicy& policy, const RestartStatus& restarts,
                              const FirstCause& cause, absl::Duration since_last) {
  RestartDecision decision;
  decision.restarts = restarts;
  if (policy.reset_after_seconds > 0 && restarts.last.has_value() &&
      since_last >= absl::Seconds(policy.reset_after_seconds)) {
    decision.restarts.counted = 0;
  }
  decision.restarts.last = cause;

  const auto rule = std::find_if(policy.rules.begin(), policy.rules.end(),
                                 [&cause](const FailureRule& r) { return Matches(r, cause); });
  const bool free_by_default = cause.reason == kNodeFailure || cause.reason == kPreempted;
  FailureAction action =
      free_by_default ? FailureAction::kRestartAndIgnoreMaxRestarts : FailureAction::kRestart;
  if (rule != policy.rules.end()) {
    action = rule->action;
  }
  if (action == FailureAction::kFailJob) {
    decision.failed_reason = "FailJobRule";
    decision.message = fmt::format("spec.failurePolicy.rules[{}] says FailJob: {}",
                                   rule - policy.rules.begin(), cause.message);
    return decision;
  }
  decision.counted = action == FailureAction::kRestart;
  if (decision.counted && decision.restarts.counted >= policy.max_restarts) {
    decision.counted = false;
    decision.failed_reason = "BackoffLimitExceeded";
    decision.message = fmt::format("all {} restarts of spec.failurePolicy.maxRestarts are used: {}",
                                   policy.max_restarts, cause.message);
    return decision;
  }
  decision.restart = true;
  ++decision.restarts.count;
  decision.restarts.counted += decision.counted ? 1 : 0;
  decision.backoff = Backoff(policy, decision.restarts.counted);
  decision.message =
      decision.counted
          ? fmt::format("restart {} ({} of {} counted): {}", decision.restarts.count,
                        decision.restarts.counted, policy.max_restarts, cause.message)
          : fmt::format("restart {} (not counted): {}", decision.restarts.count, cause.message);
  return decision;
}

}  // namespace asterism::operators
