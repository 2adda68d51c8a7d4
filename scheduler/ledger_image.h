// File: scheduler/ledger_image.h
//
// What the engine needs of a ledger, as a value that may be changed: for questions of the kind
// "where would it run if". The ledger itself never hears of it.
//
//   std::shared_ptr<const LedgerImage> now = images.Of(ledger);   // on the ledger's executor
//   LedgerImage image = *now;                                     // anywhere else
//   image.Release(held);                                          // as if somebody held that no
//   more ImageLedger copy(image); Place(request, copy.ledger());
//
// Holders are added up by node: a copy knows how much is used, not by whom.
//
// Thread-safety: images are values, LedgerImages belongs to the ledger's executor. Cost: an image
// about 100 ns and 280 bytes a node, nothing while the ledger stays the same; an ImageLedger about
// 1 us a node.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/ledger.h"
#include "scheduler/resources.h"
#include "topology/cluster.h"

namespace asterism::scheduler {

struct ImageNode {
  ResourceVector allocatable;
  ResourceVector used;
  uint32_t node_class = 0;
  uint32_t product = Ledger::kNoProduct;  // index into product_names
  bool known = false;                     // false: in the model, and nothing else is known of it
  bool usable = false;
  bool degraded = false;
  GpuIslands gpu_islands;
};

// What is held on a node.
struct HeldAmount {
  NodeId node;
  ResourceVector amount;
};
// All that the gang holds, its leaving pods included.
std::vector<HeldAmount> HeldBy(const Ledger& ledger, std::string_view gang_uid);

struct LedgerImage {
  LedgerImage() = default;
  explicit LedgerImage(const Ledger& ledger);

  // Gives back what a gang held; see HeldBy.
  void Release(const std::vector<HeldAmount>& held);

  std::shared_ptr<const topology::Cluster> cluster;
  std::vector<ImageNode> nodes;  // by NodeId
  std::vector<std::string> product_names;
  std::vector<std::string> resource_names;  // by slot
  uint64_t version = 0;
};

// Hands out the same image as long as nothing changes.
class LedgerImages {
 public:
  std::shared_ptr<const LedgerImage> Of(const Ledger& ledger) {
    if (image_ == nullptr || image_->version != ledger.version()) {
      image_ = std::make_shared<const LedgerImage>(ledger);
    }
    return image_;
  }

 private:
  std::shared_ptr<const LedgerImage> image_;
};

class ImageLedger {
 public:
  explicit ImageLedger(const LedgerImage& image);
  ImageLedger(const ImageLedger&) = delete;
  ImageLedger& operator=(const ImageLedger&) = delete;

  const Ledger& ledger() const { return ledger_; }

 private:
  ResourceTable table_;
  Ledger ledger_;
};

}  // namespace asterism::scheduler
