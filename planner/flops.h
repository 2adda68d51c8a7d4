// File: planner/flops.h
//
// Floating-point operations of a model: per layer for the time model, and per token and step in the
// conventions in which others print "model TFLOP/s" or MFU. A multiply-add counts 2.
//
//   LayerFlops forward = FlopsOfLayer(model, LayerKind::kDense, tokens, keys, Masking::kCausal);
//   ModelFlopsPerToken(model, 8192)           // Megatron Bridge: 6 P + 6 L h s
//   ClassicHardwareFlops(model, 512, 2048)    // 96 B s L h^2 (1 + s/(6h) + V/(16 L h))
//
// Conventions differ by up to a third (recompute counted or not, attention halved or not), so that
// a figure without its convention means nothing. Sources: Megatron-LM 0.20
// num_floating_point_operations; 2104.04473 section 5.1 (classic, with full recompute); Bridge
// performance tables.
//
// Preconditions: CheckModel passed. Thread-safety: pure. Cost: tens of ns.
#pragma once

#include "planner/layer_activation.h"
#include "planner/model_spec.h"

namespace asterism::planner {

enum class Masking {
  kCausal,  // attention counts half
  kFull,
};

// Forward, of one layer over all of its ranks.
struct LayerFlops {
  double projections = 0;  // attention's matrices
  double core = 0;         // scores and their sum
  double mlp = 0;          // dense and shared experts
  double routed = 0;       // top-k experts
  double router = 0;
  double total() const { return projections + core + mlp + routed + router; }
};

// `keys`: positions that a token may see at most; the sequence.
LayerFlops FlopsOfLayer(const ModelSpec& model, LayerKind kind, double tokens, double keys,
                        Masking masking);
double HeadFlops(const ModelSpec& model, double tokens);

// Forward and backward, P without the input embedding and with active experts only.
double ModelFlopsPerToken(const ModelSpec& model, double sequence);
// A step with full recompute.
double ClassicHardwareFlops(const ModelSpec& model, double global_batch, double sequence);

}  // namespace asterism::planner
