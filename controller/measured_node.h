// File: controller/measured_node.h
//
// Turns what an agent measured of its node (asterism.v1.NodeMeasurement) into the report that the
// topology merges. Parts replace each other: a part that does not come has not changed.
//
//   MeasuredNode node("gpu-7", boot_id);
//   switch (node.Take(measurement).value()) {
//     case MeasuredNode::Taken::kNews: feed.PutReport(node.report(), now); ...
//     case MeasuredNode::Taken::kLost: ask for all parts
//   }
//
// The node and its boot are those of the stream: nothing in the message can speak of another.
//
// Bounds: those below; what is beyond them is refused with the field, and changes nothing. Foreign
// texts are cut to kMeasuredTextMax.
//
// Thread-safety: none. Cost: linear in the message, quadratic in the GPUs of a node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "asterism/v1/node_measurement.pb.h"
#include "topology/finding.h"
#include "topology/node_report.h"

namespace asterism::controller {

inline constexpr int kMeasuredGpusMax = 128;
inline constexpr int kMeasuredLinksMax = 64;  // of a GPU
inline constexpr int kMeasuredNicsMax = 256;
inline constexpr int kMeasuredPortsMax = 64;   // of a card
inline constexpr int kMeasuredListMax = 1024;  // neighbours, NUMA nodes
inline constexpr int kMeasuredProbesMax = 64;
inline constexpr int kMeasuredGapsMax = 16;  // of a probe
inline constexpr size_t kMeasuredTextMax = 256;

class MeasuredNode {
 public:
  enum class Taken {
    kNews,  // report() has changed
    kSame,  // nothing has
    kLost,  // a measurement before it did not come: all parts are wanted, and nothing was taken
  };

  MeasuredNode(std::string node, std::string boot_id);

  // kInvalidArgument names the field.
  absl::StatusOr<Taken> Take(const v1::NodeMeasurement& measurement);
  // The next one must hold all parts: the stream is a new one.
  void ExpectAll() { complete_ = false; }

  const topology::NodeReport& report() const { return report_; }
  bool complete() const { return complete_; }

 private:
  void TakeGpus(const v1::MeasuredGpus& gpus);
  void TakeDomain(const v1::MeasuredNvlinkDomain& domain);
  void TakeNics(const v1::MeasuredNics& nics);
  void TakePlace(const v1::MeasuredPlace& place);
  void TakeProbes(const v1::NodeMeasurement& measurement);
  void Conclude();

  topology::NodeReport report_;
  uint64_t generation_ = 0;  // the agent's
  bool complete_ = false;
  size_t last_ = 0;  // a fingerprint of what was taken last, without its generation
  topology::NodeHealth domain_health_ = topology::NodeHealth::kUnknown;
  bool gpus_told_ = false;
  // By part.
  std::vector<topology::Finding> of_gpus_;
  std::vector<topology::Finding> of_domain_;
  std::vector<topology::Finding> of_nics_;
  std::vector<topology::Finding> of_place_;
  std::vector<topology::Finding> of_probes_;
};

}  // namespace asterism::controller
