#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fake_cluster.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "kube/client.h"
#include "nlohmann/json.hpp"

namespace asterism::controller {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

// A job with a model, as its author writes it.
json MegatronJob(const std::vector<std::string>& more_words = {}) {
  json spec;
  spec["framework"] = "MegatronLM";
  spec["model"] = {{"preset", "llama-3-8b"}, {"globalBatchSize", 128}, {"sequenceLength", 8192}};
  spec["container"]["image"] = "registry.example/train:1";
  spec["container"]["command"] = json::array({"torchrun", "pretrain_gpt.py"});
  for (const std::string& word : more_words) {
    spec["container"]["command"].push_back(word);
  }
  return spec;
}

json LlamaConfig(int layers) {
  return {{"model_type", "llama"},     {"num_hidden_layers", layers}, {"hidden_size", 4096},
          {"num_attention_heads", 32}, {"num_key_value_heads", 8},    {"intermediate_size", 14336},
          {"vocab_size", 128256},      {"tie_word_embeddings", false}};
}

class JobPlanningTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cluster_.AddNodes(16, 4);
    cluster_.StartController("a");
  }
  void TearDown() override { EXPECT_EQ(cluster_.Violations(), ""); }

  bool Runs(const std::string& job) {
    return cluster_.RunUntil([&] { return cluster_.StateOf(job) == "Running"; });
  }
  json PlanOf(const std::string& job) { return cluster_.StatusOf(job).value("plan", json()); }
  json Planned(const std::string& job) {
    const json status = cluster_.StatusOf(job);
    for (const json& condition : status.value("conditions", json::array())) {
      if (condition["type"] == "Planned") {
        return condition;
      }
    }
    return {{"status", ""}, {"reason", ""}, {"message", ""}};
  }
  bool Waits(const std::string& job, const std::string& reason) {
    return cluster_.RunUntil(
        [&] { return cluster_.StatusOf(job).value("/waiting/reason"_json_pointer, "") == reason; });
  }
  std::string WaitsBecause(const std::string& job) {
    return cluster_.StatusOf(job).value("/waiting/message"_json_pointer, "");
  }
  // The words that every pod of the job starts with; they are the same.
  std::vector<std::string> CommandOf(const std::string& job) {
    std::vector<std::string> command;
    for (const auto& [name, pod] : cluster_.PodsOf(job)) {
      const auto words = pod["spec"]["containers"][0]["command"].get<std::vector<std::string>>();
      EXPECT_TRUE(command.empty() || command == words) << name;
      command = words;
    }
    return command;
  }
  std::string VariableOf(const json& pod, const std::string& name) {
    for (const json& variable : pod["spec"]["containers"][0]["env"]) {
      if (variable["name"] == name) {
        return variable.value("value", "");
      }
    }
    return "absent";
  }

  FakeCluster cluster_{1};
};

TEST_F(JobPlanningTest, TheArgumentsOfThePlanStandBehindThoseOfTheUser) {
  cluster_.CreateJob("llama", 64, MegatronJob({"--mock-data"}));
  ASSERT_TRUE(Runs("llama")) << cluster_.StatusOf("llama").dump(1);
  const json plan = PlanOf("llama");
  std::vector<std::string> expected = {"torchrun", "pretrain_gpt.py", "--mock-data"};
  for (const json& word : plan["arguments"]) {
    expected.push_back(word);
  }
  EXPECT_EQ(CommandOf("llama"), expected);
  EXPECT_THAT(expected, IsSupersetOf({"--tensor-model-parallel-size", "--micro-batch-size",
                                      "--global-batch-size", "128", "--seq-length", "8192"}));
  EXPECT_EQ(plan["gpus"], 64);
  EXPECT_EQ(plan["gpuProduct"], "H100");
  int64_t product = 1;
  for (const char* degree : {"tensor", "pipeline", "context", "data"}) {
    product *= plan["degrees"][degree].get<int64_t>();
  }
  EXPECT_EQ(product, 64);
  EXPECT_LT(plan["stepTimeMilliseconds"]["low"], plan["stepTimeMilliseconds"]["value"]);
  EXPECT_GT(plan["memoryBytes"]["device"], plan["memoryBytes"]["allocated"]);
  EXPECT_NE(plan["boundBy"], "");
  EXPECT_EQ(Planned("llama")["status"], "True");
  EXPECT_EQ(Planned("llama")["reason"], "Applied");
  EXPECT_THAT(Planned("llama")["message"].get<std::string>(), HasSubstr("s a step"));
}

TEST_F(JobPlanningTest, DirectCommitHandsThePlanOverToo) {
  cluster_.KillController("a");
  cluster_.configuration().taint_nodes = true;
  cluster_.configuration().commit = operators::CommitMode::kDirect;
  cluster_.set_bind_pods(false);
  cluster_.StartController("b");
  cluster_.CreateJob("llama", 64, MegatronJob());
  ASSERT_TRUE(Runs("llama")) << cluster_.StatusOf("llama").dump(1);
  EXPECT_THAT(CommandOf("llama"), Contains("--tensor-model-parallel-size"));
}

TEST_F(JobPlanningTest, AdviceLeavesTheCommandAlone) {
  json spec = MegatronJob();
  spec["plan"]["mode"] = "Advise";
  cluster_.CreateJob("llama", 64, spec);
  ASSERT_TRUE(Runs("llama"));
  EXPECT_EQ(CommandOf("llama"), (std::vector<std::string>{"torchrun", "pretrain_gpt.py"}));
  EXPECT_THAT(PlanOf("llama")["arguments"], Contains("--tensor-model-parallel-size"));
  EXPECT_EQ(Planned("llama")["reason"], "Advised");
}

TEST_F(JobPlanningTest, NoPlanWithoutAModelOrWhereItIsOff) {
  cluster_.CreateJob("bare", 8);
  json off = MegatronJob();
  off["plan"]["mode"] = "Off";
  cluster_.CreateJob("off", 8, off);
  json torchrun = MegatronJob();
  torchrun["framework"] = "TorchRun";
  cluster_.CreateJob("torchrun", 8, torchrun);
  for (const auto& [job, reason] : {std::pair("bare", "NoModel"), std::pair("off", "PlanOff"),
                                    std::pair("torchrun", "FrameworkTakesNone")}) {
    ASSERT_TRUE(Runs(job)) << job;
    EXPECT_EQ(Planned(job)["reason"], reason);
    EXPECT_TRUE(PlanOf(job).is_null()) << job;
    EXPECT_THAT(CommandOf(job), Not(Contains("--tensor-model-parallel-size"))) << job;
  }
}

TEST_F(JobPlanningTest, FlagsOfTheCommandAreFixedAndNotSaidAgain) {
  cluster_.CreateJob("llama", 64,
                     MegatronJob({"--tensor-model-parallel-size", "4", "--micro-batch-size=1"}));
  ASSERT_TRUE(Runs("llama"));
  EXPECT_EQ(PlanOf("llama")["degrees"]["tensor"], 4);
  EXPECT_EQ(PlanOf("llama")["microBatchSize"], 1);
  const json arguments = PlanOf("llama")["arguments"];
  EXPECT_THAT(arguments, Not(Contains("--tensor-model-parallel-size")));
  EXPECT_THAT(arguments, Not(Contains("--micro-batch-size")));
  EXPECT_THAT(arguments, Contains("--pipeline-model-parallel-size"));
}

TEST_F(JobPlanningTest, AContradictionIsNamed) {
  json spec = MegatronJob({"--tensor-model-parallel-size", "4"});
  spec["plan"]["tensor"] = 8;
  cluster_.CreateJob("tensor", 64, spec);
  ASSERT_TRUE(Waits("tensor", "PlanFailed")) << cluster_.StatusOf("tensor").dump(1);
  EXPECT_THAT(WaitsBecause("tensor"), HasSubstr("spec.plan.tensor: is 8, but the command says "
                                                "--tensor-model-parallel-size 4: leave one out"));
  cluster_.CreateJob("batch", 64, MegatronJob({"--global-batch-size", "256"}));
  ASSERT_TRUE(Waits("batch", "PlanFailed"));
  EXPECT_THAT(WaitsBecause("batch"), HasSubstr("spec.model.globalBatchSize: is 128, but the "
                                               "command says --global-batch-size 256"));
  // Advice that cannot be given stops nobody.
  spec["plan"]["mode"] = "Advise";
  cluster_.CreateJob("advised", 64, spec);
  ASSERT_TRUE(Runs("advised"));
  EXPECT_EQ(Planned("advised")["status"], "False");
  EXPECT_THAT(Planned("advised")["message"].get<std::string>(), HasSubstr("spec.plan.tensor"));
}

TEST_F(JobPlanningTest, WhatFitsNowhereSaysFromHowManyGpusOnItDoes) {
  json spec = MegatronJob();
  spec["model"]["preset"] = "llama-3-70b";
  cluster_.CreateJob("small", 8, spec);
  ASSERT_TRUE(Waits("small", "PlanFailed")) << cluster_.StatusOf("small").dump(1);
  EXPECT_EQ(Planned("small")["reason"], "DoesNotFit");
  EXPECT_THAT(WaitsBecause("small"),
              AllOf(HasSubstr("spec.gpus: llama-3-70b needs at least"), HasSubstr("GPUs or more")));
  EXPECT_TRUE(cluster_.PodsOf("small").empty());
}

TEST_F(JobPlanningTest, AShellGetsThePlanInAVariable) {
  json spec = MegatronJob();
  spec["container"]["command"] =
      json::array({"bash", "-c", "torchrun pretrain_gpt.py $ASTERISM_PLAN_ARGS"});
  cluster_.CreateJob("llama", 64, spec);
  ASSERT_TRUE(Runs("llama"));
  EXPECT_EQ(CommandOf("llama").size(), 3u);
  EXPECT_EQ(Planned("llama")["reason"], "InEnvironment");
  EXPECT_THAT(Planned("llama")["message"].get<std::string>(), HasSubstr("$ASTERISM_PLAN_ARGS"));
  const json pod = cluster_.PodsOf("llama").begin()->second;
  EXPECT_THAT(VariableOf(pod, "ASTERISM_PLAN_ARGS"),
              HasSubstr("--micro-batch-size " +
                        std::to_string(PlanOf("llama")["microBatchSize"].get<int>())));
}

TEST_F(JobPlanningTest, DeepSpeedFindsItsFileInThePod) {
  json spec = MegatronJob();
  spec["framework"] = "DeepSpeed";
  cluster_.CreateJob("zero", 64, spec);
  ASSERT_TRUE(Runs("zero")) << cluster_.StatusOf("zero").dump(1);
  EXPECT_THAT(CommandOf("zero"), Contains("/etc/asterism-plan/deepspeed.json"));
  const json pod = cluster_.PodsOf("zero").begin()->second;
  const json file =
      json::parse(pod["metadata"]["annotations"]["asterism.dev/plan-file"].get<std::string>());
  const json plan = PlanOf("zero");
  EXPECT_EQ(file["train_micro_batch_size_per_gpu"], plan["microBatchSize"]);
  EXPECT_EQ(plan["microBatchSize"].get<int64_t>() * plan["degrees"]["data"].get<int64_t>() *
                file["gradient_accumulation_steps"].get<int64_t>(),
            128);
  EXPECT_THAT(pod["spec"]["volumes"].dump(),
              HasSubstr("metadata.annotations['asterism.dev/plan-file']"));
  EXPECT_EQ(VariableOf(pod, "ASTERISM_PLAN_FILE"), "/etc/asterism-plan/deepspeed.json");
  spec["container"]["command"].push_back("--deepspeed_config=own.json");
  cluster_.CreateJob("own", 8, spec);
  ASSERT_TRUE(Waits("own", "PlanFailed"));
  EXPECT_THAT(WaitsBecause("own"), HasSubstr("--deepspeed_config"));
}

TEST_F(JobPlanningTest, SparesAreWholePods) {
  json spec = MegatronJob();
  // 128 sequences divide by 64 data ranks, not by 72.
  spec["plan"]["maxSpareGpus"] = 16;
  spec["plan"]["tensor"] = 1;
  spec["plan"]["pipeline"] = 1;
  spec["plan"]["context"] = 1;
  cluster_.CreateJob("llama", 72, spec);
  ASSERT_TRUE(Runs("llama")) << cluster_.StatusOf("llama").dump(1);
  EXPECT_EQ(PlanOf("llama")["gpus"], 64);
  EXPECT_EQ(cluster_.PodsOf("llama").size(), 8u);
  EXPECT_EQ(cluster_.StatusOf("llama")["effective"]["pods"], 8);
}

TEST_F(JobPlanningTest, TheConfigMapOfTheModelIsRead) {
  json spec = MegatronJob();
  spec["model"].erase("preset");
  spec["model"]["huggingFaceConfigMap"] = {{"name", "llama-config"}};
  cluster_.CreateJob("llama", 64, spec);
  ASSERT_TRUE(Waits("llama", "PlanFailed"));
  EXPECT_EQ(Planned("llama")["reason"], "ModelUnreadable");
  json map = {{"apiVersion", "v1"}, {"kind", "ConfigMap"}};
  map["metadata"] = {{"name", "llama-config"}, {"namespace", "research"}};
  map["data"]["config.json"] = LlamaConfig(32).dump();
  cluster_.server().Put(kube::kConfigMaps, map);
  ASSERT_TRUE(Runs("llama")) << cluster_.StatusOf("llama").dump(1);
  EXPECT_EQ(Planned("llama")["reason"], "Applied");
}

// A plan that nothing runs with follows the ConfigMap; pods keep theirs, and the job says so.
TEST_F(JobPlanningTest, AChangedConfigMapIsPlannedAnewUntilPodsRun) {
  const auto put = [&](const json& config) {
    json map = {{"apiVersion", "v1"}, {"kind", "ConfigMap"}};
    map["metadata"] = {{"name", "llama-config"}, {"namespace", "research"}};
    map["data"]["config.json"] = config.dump();
    cluster_.server().Put(kube::kConfigMaps, map);
  };
  put(LlamaConfig(32));
  cluster_.CreateJob("whole", 128);
  ASSERT_TRUE(Runs("whole"));
  json spec = MegatronJob();
  spec["model"].erase("preset");
  spec["model"]["huggingFaceConfigMap"] = {{"name", "llama-config"}};
  cluster_.CreateJob("llama", 64, spec);
  ASSERT_TRUE(Waits("llama", "NoCapacity"));
  const json first = PlanOf("llama");
  ASSERT_NE(first.value("modelDigest", ""), "");
  put(LlamaConfig(16));
  ASSERT_TRUE(cluster_.RunUntil(
      [&] { return PlanOf("llama").value("modelDigest", "") != first["modelDigest"]; }));
  const json second = PlanOf("llama");
  EXPECT_LT(second["memoryBytes"]["allocated"], first["memoryBytes"]["allocated"]);
  EXPECT_EQ(Planned("llama")["reason"], "Applied");

  // One that cannot be read keeps the plan of what was read.
  cluster_.server().Remove(kube::kConfigMaps, {"research", "llama-config"});
  cluster_.Run(absl::Minutes(2));
  EXPECT_EQ(PlanOf("llama"), second);
  cluster_.KillController("a");
  cluster_.StartController("b");
  cluster_.DeleteJob("whole");
  ASSERT_TRUE(Runs("llama")) << cluster_.StatusOf("llama").dump(1);
  EXPECT_EQ(PlanOf("llama"), second);

  const std::vector<std::string> command = CommandOf("llama");
  put(LlamaConfig(24));
  ASSERT_TRUE(cluster_.RunUntil([&] { return Planned("llama")["reason"] == "ModelChanged"; },
                                absl::Minutes(10)));
  EXPECT_EQ(Planned("llama")["status"], "True");
  EXPECT_THAT(Planned("llama")["message"].get<std::string>(),
              HasSubstr("ConfigMap \"llama-config\" says something else since"));
  // Also over a restart of the gang.
  cluster_.EndPod(cluster_.PodsOf("llama").begin()->first, 1);
  ASSERT_TRUE(cluster_.RunUntil([&] {
    return cluster_.StateOf("llama") == "Running" &&
           cluster_.StatusOf("llama")["placement"]["epoch"] == 2;
  }));
  EXPECT_EQ(PlanOf("llama"), second);
  EXPECT_EQ(CommandOf("llama"), command);
  put(LlamaConfig(16));
  ASSERT_TRUE(cluster_.RunUntil([&] { return Planned("llama")["reason"] == "Applied"; },
                                absl::Minutes(10)));
}

TEST_F(JobPlanningTest, AnUnknownProductIsNamedUntilTheConfigurationKnowsIt) {
  for (const auto& node : cluster_.server().All(kube::kNodes)) {
    json labels;
    labels["metadata"]["labels"]["nvidia.com/gpu.product"] = "NVIDIA-X100";
    cluster_.server().Merge(kube::kNodes, {"", (*node)["metadata"]["name"].get<std::string>()},
                            labels);
  }
  cluster_.CreateJob("llama", 64, MegatronJob());
  ASSERT_TRUE(Waits("llama", "PlanFailed"));
  EXPECT_EQ(Planned("llama")["reason"], "UnknownProduct");
  EXPECT_THAT(WaitsBecause("llama"), HasSubstr("does not know NVIDIA-X100"));
  cluster_.KillController("a");
  cluster_.configuration().gpu_products = {{"NVIDIA-X100", "H200"}};
  cluster_.StartController("b");
  ASSERT_TRUE(Runs("llama")) << cluster_.StatusOf("llama").dump(1);
  EXPECT_EQ(PlanOf("llama")["gpuProduct"], "NVIDIA-X100");
}

TEST_F(JobPlanningTest, AKilledControllerComesBackToTheSamePlan) {
  // At each moment between the job and its last pod.
  for (int moment = 0; moment < 12; ++moment) {
    const std::string job = fmt::format("llama-{}", moment);
    cluster_.CreateJob(job, 64, MegatronJob({fmt::format("--exit-interval={}", moment)}));
    cluster_.Run(absl::Milliseconds(5 + 20 * moment));
    const json before = PlanOf(job);
    cluster_.KillController(moment % 2 == 0 ? "a" : "b");
    cluster_.StartController(moment % 2 == 0 ? "b" : "a");
    ASSERT_TRUE(Runs(job)) << moment << cluster_.StatusOf(job).dump(1);
    const json after = PlanOf(job);
    EXPECT_TRUE(before.is_null() || before == after) << before << after;
    EXPECT_EQ(cluster_.PodsOf(job).size(), 8u);
    CommandOf(job);  // the same in all pods
    cluster_.DeleteJob(job);
    cluster_.Run(absl::Seconds(5));
  }
}

TEST_F(JobPlanningTest, ARestartKeepsThePlanWhateverTheClusterBecame) {
  cluster_.CreateJob("llama", 64, MegatronJob());
  ASSERT_TRUE(Runs("llama"));
  const json before = PlanOf("llama");
  for (int node = 12; node < 16; ++node) {
    json labels;
    labels["metadata"]["labels"]["asterism.dev/declared-supernode"] = "sn-00";
    cluster_.server().Merge(kube::kNodes, {"", fmt::format("node-{:03}", node)}, labels);
  }
  cluster_.EndPod(cluster_.PodsOf("llama").begin()->first, 1);
  ASSERT_TRUE(cluster_.RunUntil([&] {
    return cluster_.StateOf("llama") == "Running" &&
           cluster_.StatusOf("llama")["placement"]["epoch"] == 2;
  }));
  EXPECT_EQ(PlanOf("llama"), before);
}

}  // namespace
}  // namespace asterism::controller
