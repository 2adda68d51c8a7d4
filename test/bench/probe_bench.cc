// How long the agent's probes take on a machine of 8 GPUs and 10 network cards.
//
//   probe_bench [--json]
//
// The driver is the fake one and is initialised before the clock runs; /sys is a tree of files in
// memory. Wall times, the median of many runs: the probes run beside each other, so the sum of all
// is more than a node waits.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/probe/kfd_probe.h"
#include "agent/probe/measurement_feed.h"
#include "agent/probe/measurement_merge.h"
#include "agent/probe/nvml_probe.h"
#include "agent/probe/pci_probe.h"
#include "agent/probe/rdma_probe.h"
#include "fmt/format.h"
#include "test/agent/fake_sysfs.h"
#include "test/source_tree.h"

namespace asterism::agent {
namespace {

constexpr int kRuns = 51;
constexpr double kBudgetMs = 50;

double NowMs() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double MedianMs(const std::function<void()>& work) {
  std::vector<double> times;
  for (int run = 0; run < kRuns; ++run) {
    const double began = NowMs();
    work();
    times.push_back(NowMs() - began);
  }
  std::ranges::nth_element(times, times.begin() + kRuns / 2);
  return times[kRuns / 2];
}

bool Print(bool json, std::string_view name, std::string_view unit, double value, double budget) {
  const bool ok = budget <= 0 || value <= budget;
  const std::string limit = budget > 0 ? fmt::format("{:g}", budget) : "null";
  if (json) {
    fmt::print(
        "{{\"name\": \"{}\", \"unit\": \"{}\", \"value\": {:.4f}, \"budget\": {}, "
        "\"ok\": {}}}\n",
        name, unit, value, limit, ok);
  } else {
    fmt::print("{:<44} {:>10.3f} {:<6} budget {:>5}  {}\n", name, value, unit, limit,
               ok ? "ok" : "MISSED");
  }
  return ok;
}

bool Measure(bool json) {
  const testing::FakeSysfs sysfs("bench");
  testing::MakeHgxH100(sysfs);
  setenv("ASTERISM_FAKE_NVML",
         (asterism::test_paths::SourceTree() + "/test/golden/gpus/hgx-h100.json").c_str(), 1);
  const ProbeRoots roots{.sysfs = sysfs.root(), .proc = "/proc"};
  NvmlProbe nvml(
      roots, {asterism::test_paths::BuildTree() + "/test/agent/fake_nvml/all/libnvidia-ml.so.1"});
  PciProbe pci(roots);
  RdmaProbe rdma(roots);
  KfdProbe kfd(roots);
  ProbeResult gpus = nvml.Run();  // initialises
  if (!gpus.problem.empty() || gpus.parts.gpus().gpus_size() != 8) {
    fmt::print(stderr, "probe_bench: {}\n", gpus.problem);
    return false;
  }
  ProbeResult chains;
  ProbeResult cards;
  ProbeResult others;
  const double nvml_ms = MedianMs([&] { gpus = nvml.Run(); });
  const double pci_ms = MedianMs([&] { chains = pci.Run(); });
  const double rdma_ms = MedianMs([&] { cards = rdma.Run(); });
  const double kfd_ms = MedianMs([&] { others = kfd.Run(); });
  v1::NodeMeasurement measured;
  MeasurementFeed feed(0);
  const double merge_ms = MedianMs([&] {
    measured =
        MergeMeasurement({{"nvml", &gpus}, {"kfd", &others}, {"pci", &chains}, {"rdma", &cards}});
    MakePrintable(measured);
    feed.Set(measured);
  });
  if (measured.nics().nics_size() != 10) {
    fmt::print(stderr, "probe_bench: {} cards instead of 10\n", measured.nics().nics_size());
    return false;
  }
  Print(json, "probe NVML (fake driver)", "ms", nvml_ms, 0);
  Print(json, "probe PCI chains and NUMA", "ms", pci_ms, 0);
  Print(json, "probe RDMA ports", "ms", rdma_ms, 0);
  Print(json, "merge and compare", "ms", merge_ms, 0);
  Print(json, "full measurement", "bytes", static_cast<double>(measured.ByteSizeLong()), 0);
  return Print(json, "all probes one after another, 8 GPUs 10 cards", "ms",
               nvml_ms + pci_ms + rdma_ms + kfd_ms + merge_ms, kBudgetMs);
}

}  // namespace
}  // namespace asterism::agent

int main(int count, char** arguments) {
  const bool json = count == 2 && std::string_view(arguments[1]) == "--json";
  if (count > 1 && !json) {
    std::fputs("usage: probe_bench [--json]\n", stderr);
    return 2;
  }
  return asterism::agent::Measure(json) ? 0 : 1;
}
