// File: test/extender/view_builder.h
//
// Ledger pictures and scheduler requests for tests and benchmarks of the extender.
//
//   ViewBuilder builder({.supernodes = 2, .nodes_per_supernode = 4});
//   builder.Use("gpu-0-1", kGpuSlot, 3);
//   cell.Publish(builder.Build());
//
// Thread-safety: none. Cost: that of the strings.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/ledger.h"

namespace asterism::scheduler::testing {

inline constexpr size_t kGpuSlot = 3;

struct ViewShape {
  size_t supernodes = 2;
  size_t nodes_per_supernode = 4;
  int64_t gpus = 8;
  // Longer names look like those of real clusters.
  std::string name_prefix = "gpu";
};

class ViewBuilder {
 public:
  explicit ViewBuilder(ViewShape shape);

  // "<prefix>-<supernode>-<node>"
  std::string NodeName(size_t supernode, size_t node) const;
  std::vector<std::string> NodeNames() const;  // in topology order

  NodeView& Node(std::string_view name);
  void Split(std::string_view name, GpuIslands islands);
  void Use(std::string_view name, size_t slot, int64_t amount);
  // Books the block's GPUs too.
  void AddBlock(std::string_view gang_uid, int64_t first_rank, std::string_view node, int64_t epoch,
                std::string_view pod_uid);

  // A copy with the next version.
  std::shared_ptr<const LedgerView> Build();

 private:
  ViewShape shape_;
  LedgerView view_;
  base::StringMap<GangView> gangs_;
};

// A JSON body with the padding that the parsers need behind it.
class PaddedBody {
 public:
  explicit PaddedBody(std::string text) : size_(text.size()), text_(std::move(text)) {
    text_.append(64, '\0');
  }
  std::string_view view() const { return {text_.data(), size_}; }

 private:
  size_t size_;
  std::string text_;
};

struct PodShape {
  std::string name;  // empty: the gang's own name for it, or "pod"
  int64_t gpus = 8;
  std::string job_uid;  // empty: a single pod
  std::string ranks = "0-7";
  std::string epoch = "1";
  std::string namespace_name = "research";
  size_t extra_bytes = 0;  // of environment variables, as real pods have
};

// As kube-scheduler writes them: Pod first, null for what is absent.
std::string PodJson(const PodShape& pod);
std::string ArgsJson(const PodShape& pod, const std::vector<std::string>& node_names);

}  // namespace asterism::scheduler::testing
