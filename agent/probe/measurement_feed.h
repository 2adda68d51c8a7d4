// File: agent/probe/measurement_feed.h
//
// What of a measurement is still to be told: all of it to a controller that knows nothing yet, else
// the parts that have changed.
//
//   MeasurementFeed feed(first_generation);
//   feed.Set(measured);
//   if (std::optional<v1::NodeMeasurement> next = feed.Take()) stream.Write(*next);
//   feed.WantFull();   // after a welcome, and when one was lost
//
// Changes that were not told yet become one message, so nothing piles up while nobody listens. The
// generation rises by one with each message that holds a change; it starts above that of an agent
// that ran before in the same boot.
//
// How long a probe took is no change; that it failed, or could answer again, is one.
//
// Thread-safety: none. Cost: one serialisation of each part for each Set.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "asterism/v1/node_measurement.pb.h"

namespace asterism::agent {

class MeasurementFeed {
 public:
  explicit MeasurementFeed(uint64_t first_generation) : generation_(first_generation) {}

  // `measured` holds every part that is known; a part that is missing does not take one away.
  void Set(const v1::NodeMeasurement& measured);
  void WantFull();
  // Empty: nothing is to be told, or nothing was measured yet.
  std::optional<v1::NodeMeasurement> Take();
  bool due() const;

 private:
  static constexpr size_t kParts = 7;  // six, and the outcomes of the probes

  v1::NodeMeasurement known_;
  std::array<std::string, kParts> told_;  // bytes of what was told last
  std::array<std::string, kParts> bytes_;
  uint64_t generation_;
  bool measured_ = false;
  bool full_due_ = false;
};

}  // namespace asterism::agent
