// File: base/ids.h
//
// Dense 32-bit ids that do not mix: a NodeId cannot be passed where a DomainId is wanted.
//
//   using NodeId = Id<struct NodeTag>;
//   NodeId node(17);  nodes[node.index()];   NodeId() is invalid.
//
// Thread-safety and cost: those of an integer.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace asterism::base {

template <typename Tag>
class Id {
 public:
  static constexpr uint32_t kInvalid = 0xffffffff;

  constexpr Id() = default;
  constexpr explicit Id(size_t index) : value_(static_cast<uint32_t>(index)) {}

  constexpr bool valid() const { return value_ != kInvalid; }
  constexpr size_t index() const { return value_; }
  constexpr auto operator<=>(const Id&) const = default;

  template <typename H>
  friend H AbslHashValue(H hash, Id id) {
    return H::combine(std::move(hash), id.value_);
  }

 private:
  uint32_t value_ = kInvalid;
};

}  // namespace asterism::base
