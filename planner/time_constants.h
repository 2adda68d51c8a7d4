// File: planner/time_constants.h
//
// The constants of the time model: ten that calibration may move, and the rest. A versioned table
// holds the shipped values and those fitted for a GPU with a framework; each entry names the rows
// of measured.csv that it was fitted on.
//
//   const TimeConstants& constants = ConstantsOf("H100, NeMo");      // shipped ones when unknown
//
// Thread-safety: immutable. Cost: a search of a few names.
#pragma once

#include <array>
#include <string_view>
#include <vector>

namespace asterism::planner {

inline constexpr std::string_view kTimeTablesVersion = "2026-12-01";

struct TimeConstants {
  // Calibrated.
  double product_efficiency = 0.74;    // of the bf16 peak, large matrices
  double grouped_efficiency = 0.55;    // of product_efficiency, products of experts
  double attention_efficiency = 0.45;  // of the bf16 peak, long sequences, both directions
  double half_width = 100;             // width of a rank at which a product has half its efficiency
  double half_tokens = 300;            // tokens at which it has half
  double elementwise = 0.8;            // times the bytes that norms and activations move
  double exposed_exchange = 0.8;       // share of tensor and expert exchange that is waited for
  double network_share = 0.7;          // of the nominal rate between nodes
  double exposed_data = 0.3;           // share of the exchange of gradients and weights
  double launch_us = 300;              // a layer's forward takes the host that long to launch

  // Fixed.
  double half_keys = 2000;   // sequence at which attention has half its efficiency
  double fp8_share = 0.87;   // an fp8 product's share of its peak, of a bf16 product's
  double inner_share = 0.7;  // of the nominal rate inside a node
  double call_us = 15;       // of one collective
  double optimizer_bytes_per_parameter = 34;
  double exposed_pipeline = 0.3;  // share of stage-to-stage transfers in steady state
  // Of a product whose width on a rank is no multiple of 64: BLOOM's 94 TFLOP/s at h 14400
  // against 120 at 13824, in steps of which products are about 72 %.
  double unaligned_efficiency = 0.72;
  double step_seconds = 0.005;
  // A kernel starts and drains on the GPU however small it is: all of a layer's forward, of the
  // time that the host takes to launch them. Both fitted on vtrain-s.
  double kernel_share = 0.3;
  // Ranks of a tensor group wait for their slowest host: so much longer for each doubling.
  double host_spread = 0.05;

  friend bool operator==(const TimeConstants&, const TimeConstants&) = default;
};

// Pointers to the ten, in the order above.
const std::array<double TimeConstants::*, 10>& CalibratedConstants();
// As they are called outside, in the same order.
inline constexpr std::array<std::string_view, 10> kCalibratedConstantNames = {
    "productEfficiency", "groupedEfficiency", "attentionEfficiency", "halfWidth",
    "halfTokens",        "elementwise",       "exposedExchange",     "networkShare",
    "exposedData",       "launchMicroseconds"};

const TimeConstants& ShippedConstants();
// Shipped ones when the table has no such entry.
const TimeConstants& ConstantsOf(std::string_view entry);
std::vector<std::string_view> TimeTableEntries();
// Of the entry that stands for a GPU of gpu_table.cc in a training framework of today; null where
// nothing was measured on that GPU.
const TimeConstants* ConstantsOfGpu(std::string_view gpu);

}  // namespace asterism::planner
