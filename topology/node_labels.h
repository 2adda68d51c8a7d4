// File: topology/node_labels.h
//
// What the labels, resources and annotations of a node say about its place, in the many spellings
// of clouds and tools, as one record with levels from the inside outwards.
//
//   LabelledNode node = ReadNodeLabels("n1", labels, facts);
//   node.levels[0].value;   // the nearest switch
//
// Directions differ by source (AWS layer 1 is the outermost, topograph tier 0 the innermost); they
// are converted here and nowhere else.
//
// Thread-safety: pure. Cost: linear in the labels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "topology/finding.h"

namespace asterism::topology {

struct LabelLevel {
  std::string key;    // the label, or the field of the cloud's answer
  std::string value;  // empty: not known
};

struct NodeResources {
  int64_t gpu_capacity = 0;
  int64_t gpu_allocatable = 0;
  int64_t mig_allocatable = 0;  // slices of all profiles
  bool told = false;            // there was a status
};

struct LabelledNode {
  std::string name;
  std::string_view source;         // "topograph", "aws"; empty: no level known
  std::vector<LabelLevel> levels;  // inner to outer
  // asterism.dev/declared-LEVEL, what people say; a caller may add labels of its own configuration.
  std::vector<LabelLevel> declared;
  // asterism.dev/domain-LEVEL, what we said before: read to keep ids, never as a source.
  std::vector<LabelLevel> former;
  std::string clique;         // as labelled; may be the all-zero one
  std::string nvlink_domain;  // "UUID.CLIQUE" where it is one, or the accelerator domain
  std::string product;
  std::optional<int64_t> gpu_count;
  NodeResources resources;
  bool guest = false;
  bool mig_single = false;
  std::vector<Finding> findings;

  // Of GPUs that a gang may count on: none with slices.
  int64_t WholeGpus() const;
};

inline constexpr std::string_view kDeclaredPrefix = "asterism.dev/declared-";
inline constexpr std::string_view kDomainLabelPrefix = "asterism.dev/domain-";
// An annotation beside these labels: which of the levels were measured, with commas between them.
// Only those are worth remembering.
inline constexpr std::string_view kMeasuredLevels = "asterism.dev/measured-levels";

using Labels = std::vector<std::pair<std::string, std::string>>;

LabelledNode ReadNodeLabels(std::string_view name, const Labels& labels,
                            const NodeResources& resources);

// Whether an NVLink domain "UUID.CLIQUE" has the all-zero UUID, which means none.
bool IsZeroClique(std::string_view clique);

}  // namespace asterism::topology
