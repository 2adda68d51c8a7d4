#include "planner/launch_tuning.h"

#include <algorithm>

#include "fmt/format.h"
#include "planner/time_model.h"

namespace asterism::planner {
namespace {

constexpr int64_t kManyConnections = 32;

class LaunchTuner {
 public:
  explicit LaunchTuner(const TuningQuestion& question)
      : q_(question),
        time_(EstimateTime(q_.model, q_.plan, q_.cluster, q_.profile, q_.constants)),
        tight_(q_.memory.device.high >= kTightMemory * q_.cluster.gpu.memory_bytes) {
    tuned_.launch.plan = q_.plan;
    tuned_.environment.cuda_major = q_.cluster.gpu.cuda_major;
  }

  TunedLaunch Tune() {
    switch (q_.plan.framework) {
      case Framework::kMegatron:
        TuneStates();
        TuneExchanges();
        TuneExperts();
        TuneFp8();
        TuneGraphs();
        break;
      case Framework::kDeepSpeed:
        TuneDeepSpeed();
        break;
      case Framework::kTorchTitan:
      case Framework::kAccelerate:
        TuneTorch();
        break;
    }
    SetVariables();
    return std::move(tuned_);
  }

 private:
  LaunchSwitches& switches() { return tuned_.launch.switches; }
  const Degrees& degrees() const { return q_.plan.degrees; }

  void Choose(bool LaunchSwitches::*field, std::string_view name, std::string reason) {
    switches().*field = true;
    tuned_.choices.push_back({std::string(name), "on", std::move(reason)});
  }
  void Say(std::string_view name, std::string_view value, std::string reason) {
    tuned_.choices.push_back({std::string(name), std::string(value), std::move(reason)});
  }
  void Export(std::string_view name, std::string value, std::string reason) {
    tuned_.variables.push_back({std::string(name), std::move(value), std::move(reason)});
  }

  double ShareOfStep(double seconds) const { return seconds / time_.Seconds(); }

  bool Crosses(int64_t ranks, int64_t stride) const {
    return q_.cluster.LevelOf((ranks - 1) * stride + 1) > 0;
  }

  void TuneStates() {
    const Sharding sharding = q_.plan.sharding;
    if (sharding >= Sharding::kGradients) {
      Choose(&LaunchSwitches::megatron_fsdp, "megatron_fsdp",
             "shards gradients or weights, and keeps tied embeddings");
      switches().checkpoint = CheckpointFormat::kFsdpDtensor;
    }
    if (degrees().DenseReplicas() == 1) {
      return;
    }
    const double share = ShareOfStep(time_.data_exchange);
    Choose(&LaunchSwitches::overlap_gradients, "overlap_gradients",
           fmt::format("{} ranks reduce gradients while the last backward runs",
                       degrees().DenseReplicas()));
    if (sharding != Sharding::kNone) {
      Choose(&LaunchSwitches::overlap_parameters, "overlap_parameters",
             "weights are gathered while the first forward runs");
    }
    if (share >= kNarrowShare && sharding <= Sharding::kOptimizer) {
      Choose(&LaunchSwitches::narrow_gradients, "narrow_gradients",
             fmt::format("the exchange of gradients takes {:.0f} % of the step; bf16 halves it, at "
                         "a small loss of precision in the sum",
                         100 * share));
    }
  }

  void TuneExchanges() {
    if (q_.plan.sequence_parallel && degrees().tensor > 1 && !Crosses(degrees().tensor, 1)) {
      Choose(&LaunchSwitches::overlap_tensor, "overlap_tensor",
             "products hide the exchange of tensor ranks, which stay in one domain of the first "
             "level");
    }
    if (q_.plan.virtual_stages > 1) {
      Choose(&LaunchSwitches::overlap_pipeline_fill, "overlap_pipeline_fill",
             "the interleaved schedule can hide transfers in fill and drain too");
    }
  }

  void TuneExperts() {
    if (q_.model.experts.count == 0) {
      return;
    }
    Choose(&LaunchSwitches::grouped_gemm, "grouped_gemm",
           "one launch multiplies all experts of a rank");
    if (degrees().expert == 1) {
      return;
    }
    switches().expert_dispatch = ExpertDispatch::kAllToAll;
    Say("expert_dispatch", "alltoall", "sends a token only where its experts are");
    const bool possible = (degrees().pipeline == 1 || q_.plan.virtual_stages > 1) &&
                          q_.plan.recompute.mode != RecomputeMode::kFull;
    if (possible && Crosses(degrees().expert, degrees().expert_tensor)) {
      Choose(&LaunchSwitches::overlap_experts, "overlap_experts",
             "tokens leave the first level: another micro-batch computes meanwhile");
      Choose(&LaunchSwitches::delay_weight_gradients, "delay_weight_gradients",
             "gives that overlap more work to hide behind");
    }
  }

  void TuneFp8() {
    if (q_.plan.precision != Precision::kFp8) {
      return;
    }
    const bool blocks = q_.cluster.gpu.cuda_major >= 10;
    switches().fp8 = blocks ? Fp8Recipe::kMxfp8 : Fp8Recipe::kTensorwise;
    Say("fp8", blocks ? "mxfp8" : "tensorwise",
        blocks ? "Blackwell scales blocks of 32 in hardware"
               : "scales by the values of the same step, which is steadier than a history");
    if (q_.plan.sharding != Sharding::kNone) {
      Choose(&LaunchSwitches::fp8_parameters, "fp8_parameters", "halves the gather of weights");
    }
  }

  void TuneGraphs() {
    TimeConstants without = q_.constants;
    without.launch_us = 0;
    const double faster =
        1 - EstimateTime(q_.model, q_.plan, q_.cluster, q_.profile, without).Seconds() /
                time_.Seconds();
    if (faster < kGraphShare) {
      return;
    }
    if (tight_ || q_.plan.recompute.mode == RecomputeMode::kFull) {
      Say("cuda_graphs", "off",
          fmt::format("would save {:.0f} % of the step, but {}", 100 * faster,
                      tight_ ? "need gigabytes, and memory is tight" : "exclude full recompute"));
      return;
    }
    switches().cuda_graphs = CudaGraphs::kTransformerEngine;
    Say("cuda_graphs", "transformer_engine",
        fmt::format("the host launches kernels too slowly: {:.0f} % of the step", 100 * faster));
  }

  void TuneDeepSpeed() {
    if (degrees().DenseReplicas() > 1) {
      Choose(&LaunchSwitches::overlap_gradients, "overlap_gradients",
             "gradients are reduced while the backward runs");
    }
    if (degrees().tensor > 1) {
      Choose(&LaunchSwitches::overlap_tensor, "overlap_tensor",
             "products hide the exchange of tensor ranks");
    }
    if (ShareOfStep(time_.data_exchange) >= kNarrowShare) {
      Choose(&LaunchSwitches::narrow_gradients, "narrow_gradients",
             "the exchange of gradients takes a tenth of the step or more; bf16 halves it");
    }
  }

  void TuneTorch() {
    if (q_.plan.framework == Framework::kTorchTitan) {
      Choose(&LaunchSwitches::compile, "compile", "fuses what lies between products");
      if (q_.plan.sequence_parallel && degrees().tensor > 1) {
        Choose(&LaunchSwitches::overlap_tensor, "overlap_tensor",
               "async tensor parallelism: 829 to 876 tokens/s for a 70B model");
      }
    }
    if (q_.plan.precision == Precision::kFp8) {
      switches().fp8 = Fp8Recipe::kTensorwise;
      Say("fp8", "tensorwise", "the recipe that every torchao has");
      if (q_.plan.sharding != Sharding::kNone) {
        Choose(&LaunchSwitches::fp8_parameters, "fp8_parameters", "halves the gather of weights");
      }
    }
  }

  void SetVariables() {
    LaunchEnvironment& environment = tuned_.environment;
    const bool megatron = q_.plan.framework == Framework::kMegatron;
    const bool ordered = degrees().tensor > 1 || degrees().context > 1;
    if (megatron && switches().overlap_experts) {
      environment.device_connections = kManyConnections;
    } else if (megatron && ordered && q_.cluster.gpu.cuda_major < 10 && !switches().megatron_fsdp) {
      environment.device_connections = 1;
    }
    if (environment.device_connections > 0) {
      Export("CUDA_DEVICE_MAX_CONNECTIONS", fmt::format("{}", environment.device_connections),
             environment.device_connections == 1
                 ? "keeps the order in which exchange and products of tensor ranks start"
                 : "the overlap of experts needs several queues to the GPU");
    }
    if (tight_ && switches().cuda_graphs == CudaGraphs::kNone) {
      environment.expandable_segments = true;
      Export("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True",
             fmt::format("the upper end of the memory is {:.0f} % of the GPU: fragments would not "
                         "fit beside it",
                         100 * q_.memory.device.high / q_.cluster.gpu.memory_bytes));
      Export("TORCH_NCCL_AVOID_RECORD_STREAMS", "1",
             "buffers of exchanges are freed as soon as they are done");
    }
    const int64_t stage = degrees().Gpus() / std::max<int64_t>(1, degrees().pipeline);
    if (degrees().pipeline > 1 && Crosses(2, stage)) {
      Export("NCCL_P2P_NET_CHUNKSIZE", "2097152", "stages send large activations over the network");
    }
  }

  const TuningQuestion& q_;
  const TimeEstimate time_;
  const bool tight_;
  TunedLaunch tuned_;
};

}  // namespace

TunedLaunch TuneLaunch(const TuningQuestion& question) {
  return LaunchTuner(question).Tune();
}

}  // namespace asterism::planner
