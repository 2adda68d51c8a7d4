// File: scheduler/ledger_image.h
//
// What the engine needs of a ledger, as a value that may be changed: for questions of the kind
// "where would it run if". The ledger itself never hears of it.
//
//   LedgerImage image(ledger);              // on the ledger's executor
//   image.Release(ledger, gang_uid);        // as if that gang held nothing
//   ImageLedger copy(image);                // anywhere else
//   Place(request, copy.ledger());
//
// Holders are added up by node: a copy knows how much is used, not by whom.
//
// Thread-safety: a value. Cost: an image about 100 ns a node, a copy about 1 us a node.
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
};

struct LedgerImage {
  LedgerImage() = default;
  explicit LedgerImage(const Ledger& ledger);

  // Gives back what the gang holds, its leaving pods included. `ledger` as it was imaged.
  void Release(const Ledger& ledger, std::string_view gang_uid);

  std::shared_ptr<const topology::Cluster> cluster;
  std::vector<ImageNode> nodes;  // by NodeId
  std::vector<std::string> product_names;
  std::vector<std::string> resource_names;  // by slot
  uint64_t version = 0;
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
