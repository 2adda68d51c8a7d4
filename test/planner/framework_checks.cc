#include "test/planner/framework_checks.h"

#include <map>
#include <sstream>

#include "nlohmann/json.hpp"
#include "yaml-cpp/yaml.h"

namespace asterism::planner {
namespace {

using nlohmann::json;

class Complainer {
 public:
  void Assert(bool holds, std::string what) {
    if (!holds) {
      complaints_.push_back(std::move(what));
    }
  }
  Complaints complaints_;
};

// argparse over options that take a value unless the next word begins with dashes.
class ArgumentMap {
 public:
  explicit ArgumentMap(const std::vector<std::string>& words) {
    for (size_t at = 0; at < words.size(); ++at) {
      std::string& value = values_[words[at].substr(2)];
      while (at + 1 < words.size() && !words[at + 1].starts_with("--")) {
        value += (value.empty() ? "" : " ") + words[++at];
      }
    }
  }
  bool Has(const std::string& name) const { return values_.contains(name); }
  int64_t Whole(const std::string& name, int64_t absent) const {
    return Has(name) ? std::stoll(values_.at(name)) : absent;
  }
  std::string Text(const std::string& name, const std::string& absent) const {
    return Has(name) ? values_.at(name) : absent;
  }

 private:
  std::map<std::string, std::string> values_;
};

void CheckMegatronDegrees(const ArgumentMap& args, const ModelSpec& model, int64_t world,
                          Complainer& out) {
  const int64_t t = args.Whole("tensor-model-parallel-size", 1);
  const int64_t p = args.Whole("pipeline-model-parallel-size", 1);
  const int64_t c = args.Whole("context-parallel-size", 1);
  const int64_t e = args.Whole("expert-model-parallel-size", 1);
  const int64_t x = args.Whole("expert-tensor-parallel-size", t);
  out.Assert(world % (t * p * c) == 0, "world size is not divisible by tp x pp x cp");
  out.Assert(world % (x * e * p) == 0, "world size is not divisible by etp x ep x pp");
  const int64_t data = world / (t * p * c);
  const int64_t micro = args.Whole("micro-batch-size", 0);
  const int64_t batch = args.Whole("global-batch-size", micro * data);
  out.Assert(micro > 0 && batch % (micro * data) == 0, "global batch is not divisible");
  if (e > 1) {
    out.Assert(model.experts.count > 0 && model.experts.count % e == 0, "num_experts % ep");
  }
  if (c > 1) {
    out.Assert(args.Whole("seq-length", 0) % (2 * c) == 0, "seq-length % (2 cp)");
    if (args.Text("cp-comm-type", "p2p") == "a2a") {
      out.Assert(model.attention.heads / t % c == 0, "heads / tp % cp");
    }
  }
  out.Assert(model.attention.heads % t == 0, "num_attention_heads % tp");
  if (model.attention.kind == AttentionKind::kGrouped) {
    const int64_t g = model.attention.kv_heads;
    out.Assert(g % t == 0 || t % g == 0, "num_query_groups and tp");
  }
}

void CheckMegatronPipeline(const ArgumentMap& args, const ModelSpec& model, int64_t world,
                           Complainer& out) {
  const int64_t p = args.Whole("pipeline-model-parallel-size", 1);
  const int64_t first = args.Whole("decoder-first-pipeline-num-layers", 0);
  const int64_t last = args.Whole("decoder-last-pipeline-num-layers", 0);
  const int64_t v = args.Whole("num-virtual-stages-per-pipeline-rank", 1);
  int64_t layers = model.layers;
  layers += int64_t{args.Has("account-for-embedding-in-pipeline-split")};
  layers += int64_t{args.Has("account-for-loss-in-pipeline-split")};
  int64_t stages = p;
  if (first > 0 || last > 0) {
    layers -= first + last;
    stages -= int64_t{first > 0} + int64_t{last > 0};
    out.Assert(stages > 0 && layers > 0 && layers % stages == 0, "middle layers % middle stages");
  } else {
    out.Assert(layers % p == 0, "layers % pp");
    out.Assert(layers % (p * v) == 0, "layers % (pp x vpp)");
  }
  if (v == 1) {
    return;
  }
  const bool overlap = !args.Has("no-overlap-p2p-communication");
  out.Assert(p > (overlap ? 1 : 2), "vpp needs pp");
  const int64_t data = world / (args.Whole("tensor-model-parallel-size", 1) * p *
                                args.Whole("context-parallel-size", 1));
  const int64_t m = args.Whole("global-batch-size", 0) / (args.Whole("micro-batch-size", 1) * data);
  const int64_t group = args.Whole("microbatch-group-size-per-virtual-pipeline-stage", p);
  out.Assert(group >= p && group <= m, "group size from pp to micro-batches");
  out.Assert(m % group == 0 || m % group >= p, "last group is smaller than pp");
}

void CheckMegatronSwitches(const ArgumentMap& args, const ModelSpec& model, Complainer& out) {
  const bool optimizer = args.Has("use-distributed-optimizer");
  const bool torch_fsdp = args.Has("use-torch-fsdp2");
  const bool fsdp = args.Has("use-megatron-fsdp");
  if (args.Has("overlap-param-gather")) {
    out.Assert(optimizer || fsdp, "overlap-param-gather needs the distributed optimizer");
    out.Assert(args.Has("overlap-grad-reduce"), "overlap-param-gather needs overlap-grad-reduce");
  }
  if (torch_fsdp) {
    out.Assert(args.Whole("pipeline-model-parallel-size", 1) == 1, "fsdp2 and pp");
    out.Assert(args.Whole("expert-model-parallel-size", 1) == 1, "fsdp2 and ep");
    out.Assert(!optimizer, "fsdp2 and distributed optimizer");
    out.Assert(args.Has("no-gradient-accumulation-fusion"), "fsdp2 and fusion");
    out.Assert(args.Text("ckpt-format", "") == "torch_dist", "fsdp2 and ckpt-format");
    out.Assert(!model.tied_embeddings, "fsdp2 and tied embeddings");
  }
  out.Assert(fsdp == (args.Text("ckpt-format", "") == "fsdp_dtensor"), "fsdp and ckpt-format");
  if (args.Has("fp8-param-gather")) {
    out.Assert(optimizer || torch_fsdp || fsdp, "fp8-param-gather");
  }
  if (args.Text("recompute-granularity", "") == "selective") {
    out.Assert(!args.Has("recompute-method"), "selective and recompute-method");
  }
  if (args.Text("recompute-granularity", "") == "full") {
    out.Assert(args.Has("recompute-method") && args.Has("recompute-num-layers"), "full and method");
    out.Assert(!args.Has("cuda-graph-impl"), "graphs and full recompute");
  }
  const bool sequence = args.Has("sequence-parallel");
  out.Assert(!sequence || args.Whole("tensor-model-parallel-size", 1) > 1, "sp is silently off");
  out.Assert(!args.Has("tp-comm-overlap") || sequence, "tp-comm-overlap needs sp");
  if (args.Has("optimizer-cpu-offload")) {
    out.Assert(args.Has("use-precision-aware-optimizer"), "offload needs precision-aware");
  }
  if (args.Has("overlap-moe-expert-parallel-comm")) {
    out.Assert(args.Whole("expert-model-parallel-size", 1) > 1, "ep overlap needs ep");
    out.Assert(args.Text("moe-token-dispatcher-type", "allgather") != "allgather", "dispatcher");
    out.Assert(args.Whole("pipeline-model-parallel-size", 1) == 1 ||
                   args.Has("num-virtual-stages-per-pipeline-rank"),
               "ep overlap needs vpp");
    out.Assert(args.Text("recompute-granularity", "") != "full", "ep overlap and full recompute");
    out.Assert(!args.Has("moe-shared-expert-overlap"), "ep overlap and shared expert overlap");
  }
  out.Assert(!args.Has("delay-wgrad-compute") || args.Has("overlap-moe-expert-parallel-comm"),
             "delay-wgrad-compute");
  if (args.Text("recompute-modules", "").find("moe_act") != std::string::npos) {
    out.Assert(args.Has("moe-grouped-gemm"), "moe_act needs grouped gemm");
  }
  if (args.Has("cpu-offloading")) {
    out.Assert(args.Whole("pipeline-model-parallel-size", 1) == 1, "cpu-offloading and pp");
    out.Assert(!args.Has("recompute-granularity"), "cpu-offloading and recompute");
  }
}

}  // namespace

Complaints MegatronComplaints(const std::vector<std::string>& arguments, const ModelSpec& model,
                              const LaunchEnvironment& environment, int64_t world) {
  Complainer out;
  const ArgumentMap args(arguments);
  CheckMegatronDegrees(args, model, world, out);
  CheckMegatronPipeline(args, model, world, out);
  CheckMegatronSwitches(args, model, out);
  const bool fsdp = args.Has("use-megatron-fsdp") || args.Has("use-torch-fsdp2");
  const bool parallel =
      args.Whole("tensor-model-parallel-size", 1) > 1 || args.Whole("context-parallel-size", 1) > 1;
  out.Assert(!fsdp || environment.device_connections != 1, "fsdp and connections");
  if (parallel && environment.cuda_major < 10 && !fsdp &&
      !args.Has("overlap-moe-expert-parallel-comm")) {
    out.Assert(environment.device_connections == 1, "tp and connections");
  }
  out.Assert(!args.Has("cuda-graph-impl") || !environment.expandable_segments, "graphs, segments");
  return std::move(out.complaints_);
}

Complaints DeepSpeedComplaints(const std::string& text, const ModelSpec& model, int64_t world) {
  Complainer out;
  const json file = json::parse(text);
  const auto whole = [&file](const char* pointer, int64_t absent) {
    return file.value(json::json_pointer(pointer), absent);
  };
  const int64_t t = whole("/tensor_parallel/autotp_size", 1);
  const int64_t p = whole("/pipeline/stages", 1);
  const int64_t c = whole("/sequence_parallel_size", 1);
  const int64_t stage = whole("/zero_optimization/stage", 0);
  out.Assert(world % (t * p * c) == 0, "world size");
  out.Assert(!file.contains("train_batch_size") ||
                 file["train_batch_size"] == whole("/train_micro_batch_size_per_gpu", 0) *
                                                 whole("/gradient_accumulation_steps", 0) *
                                                 (world / (t * p * c)),
             "train_batch_size is not the product");
  out.Assert(t == 1 || stage <= 2, "autotp and ZeRO-3");
  out.Assert(p == 1 || stage < 2, "ZeRO-2 and ZeRO-3 with a pipeline");
  out.Assert(!file["zero_optimization"].contains("offload_param") || stage == 3, "offload_param");
  out.Assert(!file["zero_optimization"].contains("offload_optimizer") || stage >= 1,
             "offload_optimizer");
  out.Assert(!file["zero_optimization"].contains("mics_shard_size") || stage == 3, "mics");
  out.Assert(model.attention.heads % t == 0, "heads % autotp_size");
  if (model.attention.kind == AttentionKind::kGrouped) {
    out.Assert(t <= model.attention.kv_heads, "autotp_size above kv heads");
  }
  return std::move(out.complaints_);
}

Complaints TorchTitanComplaints(const std::string& toml, const ModelSpec& model, int64_t world) {
  Complainer out;
  std::map<std::string, std::string> values;
  std::istringstream lines(toml);
  std::string table;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("[")) {
      table = line.substr(1, line.size() - 2) + ".";
    } else if (const size_t equals = line.find(" = "); equals != std::string::npos) {
      values[table + line.substr(0, equals)] = line.substr(equals + 3);
    }
  }
  const auto whole = [&values](const std::string& name, int64_t absent) {
    const auto found = values.find("parallelism." + name);
    return found == values.end() ? absent : std::stoll(found->second);
  };
  const int64_t replicate = whole("data_parallel_replicate_degree", 1);
  const int64_t shard = whole("data_parallel_shard_degree", -1);
  const int64_t t = whole("tensor_parallel_degree", 1);
  const int64_t c = whole("context_parallel_degree", 1);
  const int64_t p = whole("pipeline_parallel_degree", 1);
  const int64_t e = whole("expert_parallel_degree", 1);
  out.Assert(replicate * shard * c * t * p == world, "dp_replicate dp_shard cp tp pp is not world");
  out.Assert(shard * c * t % e == 0, "ep does not divide dp_shard cp tp");
  out.Assert(e == 1 || (model.experts.count > 0 && model.experts.count % e == 0), "experts % ep");
  out.Assert(model.attention.heads % t == 0, "heads % tp");
  if (model.attention.kind == AttentionKind::kGrouped) {
    out.Assert(model.attention.kv_heads % t == 0, "kv heads % tp");
  }
  const int64_t local = std::stoll(values["training.local_batch_size"]);
  out.Assert(std::stoll(values["training.global_batch_size"]) % (local * replicate * shard) == 0,
             "global batch size");
  if (p > 1) {
    out.Assert(local % whole("pipeline_parallel_microbatch_size", 1) == 0, "micro-batch");
    const int64_t counted = model.layers + whole("pipeline_parallel_first_stage_less_layers", 1) +
                            whole("pipeline_parallel_last_stage_less_layers", 1);
    const int64_t each = whole("pipeline_parallel_layers_per_stage", 0);
    const int64_t stages = each > 0 ? (counted + each - 1) / each : 0;
    const std::string schedule = values["parallelism.pipeline_parallel_schedule"];
    const bool single = schedule == "\"1F1B\"" || schedule == "\"GPipe\"";
    out.Assert(stages % p == 0, "virtual stages % pp");
    out.Assert(single ? stages == p : stages >= 2 * p, "stages a rank of the schedule");
  }
  out.Assert(values["parallelism.enable_async_tensor_parallel"] != "true" ||
                 values["compile.enable"] == "true",
             "async tp needs compile");
  return std::move(out.complaints_);
}

Complaints AccelerateComplaints(const std::string& yaml, const ModelSpec& model, int64_t world) {
  Complainer out;
  const YAML::Node file = YAML::Load(yaml);
  const YAML::Node degrees = file["parallelism_config"];
  const auto degree = [&degrees](const std::string& name) {
    return degrees["parallelism_config_" + name].as<int64_t>(1);
  };
  const int64_t t = degree("tp_size");
  const int64_t c = degree("cp_size");
  const int64_t replicate = degree("dp_replicate_size");
  const int64_t shard = degree("dp_shard_size");
  out.Assert(replicate * shard * t * c == world, "total_size is not num_processes");
  out.Assert(file["num_processes"].as<int64_t>() == world, "num_processes");
  out.Assert((t == 1 && c == 1) || replicate == 1 || shard > 1, "tp or cp with pure replication");
  out.Assert(model.attention.heads % t == 0, "heads % tp");
  const std::string kind = file["distributed_type"].as<std::string>();
  out.Assert(kind == "FSDP" || shard == 1, "shards without FSDP");
  if (kind == "FSDP") {
    out.Assert(file["fsdp_config"]["fsdp_version"].as<int>() == 2, "fsdp_version");
  }
  return std::move(out.complaints_);
}

}  // namespace asterism::planner
