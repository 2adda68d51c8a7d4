// What an agent measured: any message is taken or refused, and what is taken keeps its bounds. The
// report goes on into the merge.
#include <cstddef>
#include <cstdint>
#include <string>

#include "asterism/v1/node_measurement.pb.h"
#include "base/check.h"
#include "controller/measured_node.h"
#include "topology/node_labels.h"
#include "topology/topology_keeper.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace topology = asterism::topology;
  asterism::v1::NodeMeasurement measurement;
  if (size < 1 || !measurement.ParseFromArray(data + 1, static_cast<int>(size - 1))) {
    return 0;
  }
  asterism::controller::MeasuredNode node("gpu-0", "boot");
  topology::TopologyKeeper keeper({});
  keeper.PutNodes({topology::ReadNodeLabels("gpu-0", {}, {.gpu_capacity = 8, .told = true}),
                   topology::ReadNodeLabels("gpu-1", {}, {})},
                  absl::UnixEpoch());
  if ((data[0] & 1) != 0) {
    measurement.set_full(true);
  }
  for (int i = 0; i < 2; ++i) {
    const auto taken = node.Take(measurement);
    if (taken.ok() && *taken == asterism::controller::MeasuredNode::Taken::kNews) {
      const topology::NodeReport& report = node.report();
      CHECK_THAT(report.gpu_count <= asterism::controller::kMeasuredGpusMax, "too many GPUs");
      CHECK_THAT(report.nvlink_domain.size() <= topology::kNvlinkUuidMax + 11, "a long domain");
      keeper.PutReport(report, absl::UnixEpoch());
      CHECK_THAT(keeper.snapshot()->cluster->node_count() == 2, "a report took a node away");
    }
    measurement.set_generation(measurement.generation() + 1);
    measurement.set_full(false);
  }
  return 0;
}
