// How long a job takes from its text to its booked placement, and how wide it is spread: what
// another scheduler's whole call for an allocation does, on the same cluster.
//
//   allocation_bench --nodes 1280 --sizes 1,128 [--busy FILE]
//   -> {"nodes": 1, "samples_us": [..], "domains": [1, 1, 1, 1]}
//
// One object a size. Timed: the job is parsed and admitted, placed, booked in the ledger, and its
// status is written as the text that goes to the API server. The cluster is that of
// placement_bench_cluster.h; --busy names nodes that somebody else holds, one a line.
// `domains`: how many of each level the placement uses, inner to outer.

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/check.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "operator/admission.h"
#include "operator/placement_outcome.h"
#include "operator/queue.h"
#include "operator/training_job.h"
#include "operator/training_job_status.h"
#include "placement_bench_cluster.h"
#include "scheduler/placement.h"

namespace asterism::operators {
namespace {

constexpr int kSamples = 25;
constexpr int kWarmUp = 3;

double NowUs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

std::string JobText(int64_t nodes) {
  return fmt::format(
      R"({{"apiVersion":"asterism.dev/v1alpha1","kind":"TrainingJob",)"
      R"("metadata":{{"name":"bench","namespace":"research","uid":"bench-uid","generation":1}},)"
      R"("spec":{{"queue":"research","gpus":{},"gpusPerPod":8,"container":)"
      R"({{"image":"registry.example/train:1","command":["torchrun","train.py"]}}}}}})",
      nodes * scheduler::kGpusOfNode);
}

class AllocationBench {
 public:
  AllocationBench(size_t nodes, const std::string& busy_file)
      : cluster_(nodes, scheduler::DefaultLevels()) {
    Queue queue;
    queue.meta.name = "research";
    queue.spec.namespaces = {"research"};
    facts_.queue = std::make_shared<const Queue>(std::move(queue));
    facts_.priority = 0;
    facts_.node_gpus = {.commonest = scheduler::kGpusOfNode, .largest = scheduler::kGpusOfNode};
    facts_.resources.SlotOf("nvidia.com/gpu");
    facts_.level_names = {"node", "supernode", "rack", "cluster"};
    facts_.resource_names = {"nvidia.com/gpu"};
    std::ifstream busy(busy_file);
    for (std::string name; std::getline(busy, name);) {
      scheduler::PodState pod;
      pod.uid = "busy-" + name;
      pod.name = "other/" + name;
      pod.node = name;
      pod.requests = cluster_.Request("", 1, scheduler::kGpusOfNode).request;
      cluster_.ledger().PutPod(pod);
    }
  }

  bool Measure(int64_t nodes) {
    const std::string text = JobText(nodes);
    std::vector<double> samples_us;
    scheduler::PlacementOutcome outcome;
    for (int run = -kWarmUp; run < kSamples; ++run) {
      const double begin = NowUs();
      const size_t bytes = Allocate(text, outcome);
      const double end = NowUs();
      if (bytes == 0) {
        return false;
      }
      if (run >= 0) {
        samples_us.push_back(end - begin);
      }
      cluster_.ledger().RemoveGang("bench-uid");
    }
    std::vector<int64_t> domains;
    for (const scheduler::LevelUse& use : std::get<scheduler::Placed>(outcome).levels) {
      domains.push_back(use.domains);
    }
    fmt::print("{{\"nodes\": {}, \"samples_us\": [{:.1f}], \"domains\": [{}]}}\n", nodes,
               fmt::join(samples_us, ", "), fmt::join(domains, ", "));
    return true;
  }

 private:
  // Returns the size of the status that goes to the API server; 0: it was not placed.
  size_t Allocate(const std::string& text, scheduler::PlacementOutcome& outcome) {
    const absl::StatusOr<TrainingJob> job = ParseTrainingJob(text);
    CHECK_THAT(job.ok(), std::string(job.status().message()));
    TrainingJobStatus status;
    const Admission admission = Admit(*job, status, facts_);
    CHECK_THAT(!admission.refusal, admission.refusal ? admission.refusal->message : "");
    scheduler::Place(admission.request, cluster_.ledger(), outcome);
    const auto* placed = std::get_if<scheduler::Placed>(&outcome);
    if (placed == nullptr) {
      return 0;
    }
    const topology::Cluster& model = cluster_.ledger().cluster();
    scheduler::Gang gang;
    gang.uid = job->meta.uid;
    gang.name = job->meta.Key();
    gang.gpu_slot = admission.request.gpu_slot;
    gang.gpus_per_block = admission.shape.gpus_per_pod;
    gang.request = admission.request.request;
    for (size_t pod = 0; pod < placed->nodes.size(); ++pod) {
      gang.blocks.push_back({static_cast<int64_t>(pod) * admission.shape.processes_per_pod,
                             model.node_name(placed->nodes[pod]), 1});
    }
    cluster_.ledger().PutGang(gang);
    status.placement.epoch = 1;
    status.placement.levels = LevelsOf(*placed, model);
    status.placement.runs = RunsOf(gang.blocks, admission.shape.processes_per_pod,
                                   [&](std::string_view node) { return DomainOf(node, model); });
    return StatusApplyBody(job->meta, status).size();
  }

  scheduler::BenchCluster cluster_;
  AdmissionFacts facts_;
};

int Run(int argc, char** argv) {
  int64_t nodes = 1280;
  std::string sizes = "1";
  std::string busy;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    if (option == "--nodes") {
      nodes = std::atoll(argv[i + 1]);
    } else if (option == "--sizes") {
      sizes = argv[i + 1];
    } else if (option == "--busy") {
      busy = argv[i + 1];
    }
  }
  if (argc % 2 == 0 || nodes < 1) {
    fmt::print(stderr, "usage: allocation_bench --nodes N --sizes N,N,.. [--busy FILE]\n");
    return 2;
  }
  AllocationBench bench(static_cast<size_t>(nodes), busy);
  bool all = true;
  const std::vector<std::string> each = absl::StrSplit(sizes, ',');
  for (const std::string& size : each) {
    all = bench.Measure(std::atoll(size.c_str())) && all;
  }
  return all ? 0 : 1;
}

}  // namespace
}  // namespace asterism::operators

int main(int argc, char** argv) {
  return asterism::operators::Run(argc, argv);
}
