// File: scheduler/extender/extender.h
//
// Answers kube-scheduler's extender calls from the published ledger. It reserves nothing: the same
// question against the same ledger has the same answer, and an answer that the scheduler throws
// away costs nothing. A single pod with GPUs that it lets pass is noted as in flight.
//
//   Extender extender(clock, ledger_cell, readiness, registry, {.gpu_resources =
//   {"nvidia.com/gpu"}}); response.code = extender.Filter(request.body, response.body);
//
// A gang's pod (label asterism.dev/job-uid) may go only where the ledger has its rank block. A
// single pod that asks for GPUs may go where they are free beside bound pods and reserved rank
// blocks, and is drawn to broken nodes and supernodes (node_score.h). Everything else passes
// unchanged.
//
// Refusals are FailedAndUnresolvableNodes: preemption could not cure them. At most 64 nodes of a
// request get a reason. What is wrong with a request as a whole stands in Error of a 200 answer
// (kube-scheduler throws the text of any other code away), for the verbs that have no Error in a
// 400.
//
// Thread-safety: verbs from any threads. Cost (test/bench/extender_bench): pinned pod 3 us, 12,800
// names about 200 us; scratch memory of a few MB for each concurrent call.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/snapshot.h"
#include "scheduler/ledger.h"
#include "scheduler/single_pods_in_flight.h"

namespace asterism::scheduler {

// Readable bytes that must follow every body (simdjson works in place).
inline constexpr size_t kExtenderBodyPadding = 64;

enum class ExtenderReadiness {
  kReady,
  kRebuilding,  // leads, but the ledger is not complete: Error in a 200 answer
  kStandby,     // does not lead: 503
};

struct ExtenderOptions {
  // Names of extended resources that count GPUs: the managedResources of kube-scheduler.
  std::vector<std::string> gpu_resources = {"nvidia.com/gpu"};
  // Outlives the extender. Null: nobody wants to know.
  SinglePodsInFlight* in_flight = nullptr;
};

class Extender {
 public:
  // `readiness` is called on the threads of the verbs.
  Extender(const base::Clock& clock, const base::SnapshotCell<LedgerView>& ledger,
           std::function<ExtenderReadiness()> readiness, base::MetricRegistry& registry,
           ExtenderOptions options);
  ~Extender();

  // Each returns the HTTP code and appends the JSON to `answer`, which is empty before.
  int Filter(std::string_view body, std::string& answer);
  int Prioritize(std::string_view body, std::string& answer);
  int Preempt(std::string_view body, std::string& answer);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace asterism::scheduler
