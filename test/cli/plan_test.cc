// The verb plan, from files to what is printed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/rng.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/plan_request.h"
#include "cli/yaml_document.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "test/cli/golden.h"

namespace asterism::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kH100s[] = R"(gpu: H100
levels:
- {name: node, gpus: 8}
- {name: cluster, gpus: 1024, gigabytesPerSecond: 50, latencyMicroseconds: 14}
)";

std::string JobText(const std::string& model, const std::string& rest, int gpus = 512) {
  return fmt::format(R"(apiVersion: asterism.dev/v1alpha1
kind: TrainingJob
metadata: {{name: llama, namespace: research}}
spec:
  queue: research
  gpus: {}
  model: {{{}globalBatchSize: 1024, sequenceLength: 8192}}
  {}
)",
                     gpus, model, rest);
}

const std::string kMegatronJob = JobText("preset: llama-3-70b, ", "framework: MegatronLM");

struct PlanRun {
  int code = 0;
  std::string out;
  std::string error;
};

class PlanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              fmt::format("asterism-plan-{}", base::Rng(base::Rng::SystemSeed()).Name(8));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  PlanRun Plan(const std::string& job, const std::vector<std::string>& more = {},
               const std::string& cluster = kH100s, size_t width = 0) {
    std::vector<std::string> words = {"plan", "-f", Write("job.yaml", job), "--cluster",
                                      Write("cluster.yaml", cluster)};
    words.insert(words.end(), more.begin(), more.end());
    std::ostringstream out;
    std::ostringstream error;
    PlanRun run;
    run.code = RunCommand(words, Surroundings{.clock = clock_,
                                              .out = out,
                                              .error = error,
                                              .paper = {.width = width},
                                              .kubeconfig = {},
                                              .server = ""});
    run.out = out.str();
    run.error = error.str();
    return run;
  }

  base::SystemClock clock_;
  std::filesystem::path folder_;
};

TEST_F(PlanTest, PeopleSeeATable) {
  const PlanRun run = Plan(kMegatronJob, {}, kH100s, 120);
  EXPECT_EQ(run.code, kExitDone);
  EXPECT_THAT(run.error, IsEmpty());
  ExpectGolden("plan", run.out);
  ExpectGolden("plan-wide", Plan(kMegatronJob, {"-o", "wide"}).out);
}

TEST_F(PlanTest, ProgramsGetEveryNumber) {
  const PlanRun run = Plan(kMegatronJob, {"-o", "json"});
  ExpectGolden("plan-json", run.out);
  const json plan = json::parse(run.out);
  const json& degrees = plan["degrees"];
  EXPECT_EQ(degrees["tensor"].get<int>() * degrees["pipeline"].get<int>() *
                degrees["context"].get<int>() * degrees["data"].get<int>(),
            plan["gpusUsed"].get<int>());
  double step = 0;
  for (const json& term : plan["stepTerms"]) {
    step += term["value"].get<double>();
  }
  EXPECT_NEAR(step, plan["stepSeconds"]["value"].get<double>(), 1e-6);
  EXPECT_EQ(plan["refused"].size(), 5U);
  EXPECT_THAT(Plan(kMegatronJob, {"-o", "yaml"}).out, HasSubstr("stepSeconds:\n"));
}

TEST_F(PlanTest, EachFormatIsThatOfItsProgram) {
  for (const std::string format :
       {"megatron", "bridge", "deepspeed", "torchtitan", "accelerate", "torchrun"}) {
    const PlanRun run = Plan(kMegatronJob, {"-o", format});
    EXPECT_EQ(run.code, kExitDone) << run.error;
    ExpectGolden("plan-" + format, run.out);
  }
  const json deepspeed = json::parse(Plan(kMegatronJob, {"-o", "deepspeed"}).out);
  EXPECT_EQ(deepspeed["train_batch_size"], 1024);
}

TEST_F(PlanTest, ThePictureIsSvg) {
  const PlanRun run = Plan(kMegatronJob, {"-o", "svg"});
  EXPECT_THAT(run.out, AllOf(StartsWith("<svg "), HasSubstr("activations"), HasSubstr("</svg>")));
  ExpectGolden("plan-svg", run.out);
}

TEST_F(PlanTest, FlagsOfTheCommandAreFixedAndNotRepeated) {
  const std::string job =
      JobText("preset: llama-3-70b, ",
              "framework: MegatronLM\n  container: {image: x, command: [torchrun, pretrain.py, "
              "--tensor-model-parallel-size, '8', --bf16, --micro-batch-size=2]}");
  const PlanRun run = Plan(job, {"-o", "megatron"});
  EXPECT_THAT(run.out, AllOf(Not(HasSubstr("--tensor-model-parallel-size")),
                             Not(HasSubstr("--bf16")), Not(HasSubstr("--micro-batch-size")),
                             HasSubstr("--pipeline-model-parallel-size")));
  const json plan = json::parse(Plan(job, {"-o", "json"}).out);
  EXPECT_EQ(plan["degrees"]["tensor"], 8);
  EXPECT_EQ(plan["microBatchSize"], 2);
}

TEST_F(PlanTest, AModelComesFromAnyOfItsSources) {
  const std::string config = R"({"model_type": "llama", "hidden_size": 4096,
      "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32,
      "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": false})";
  const auto degrees = [this](const std::string& model, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"-o", "json"};
    words.insert(words.end(), more.begin(), more.end());
    const PlanRun run = Plan(JobText(model, "framework: MegatronLM", 64), words);
    EXPECT_EQ(run.code, kExitDone) << run.error;
    return json::parse(run.out)["degrees"];
  };
  const json preset = degrees("preset: llama-3-8b, ", {});
  EXPECT_EQ(
      degrees("huggingFaceConfigMap: {name: llama}, ", {"--config", Write("config.json", config)}),
      preset);
  EXPECT_EQ(degrees("inline: " + json::parse(config).dump() + ", ", {}), preset);
  EXPECT_EQ(degrees("inline: {layers: 32, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, "
                    "vocabulary: 128256}, ",
                    {}),
            preset);
}

TEST_F(PlanTest, WhatCannotFitSaysFromWhereOnItWould) {
  const PlanRun run = Plan(JobText("preset: llama-3-405b, ", "framework: MegatronLM", 64));
  EXPECT_EQ(run.code, kExitNever);
  EXPECT_THAT(run.error, AllOf(StartsWith("no plan: gpus: llama-3-405b needs at least"),
                               HasSubstr("GiB"), HasSubstr("use 128 GPUs or more")));
  const PlanRun structured =
      Plan(JobText("preset: llama-3-405b, ", "framework: MegatronLM", 64), {"-o", "json"});
  EXPECT_EQ(structured.code, kExitNever);
  EXPECT_EQ(json::parse(structured.out)["minimumGpus"], 128);
}

struct BadPlan {
  friend void PrintTo(const BadPlan& bad, std::ostream* out) { *out << bad.message; }

  std::string job;
  std::string cluster = kH100s;
  std::string message;
};

class BadPlanTest : public PlanTest, public ::testing::WithParamInterface<BadPlan> {};

TEST_P(BadPlanTest, NamesFieldAndRemedy) {
  const PlanRun run = Plan(GetParam().job, {}, GetParam().cluster);
  EXPECT_EQ(run.code, kExitError);
  EXPECT_THAT(run.error, HasSubstr(GetParam().message));
  EXPECT_THAT(run.out, IsEmpty());
}

const std::string kMegatron = "framework: MegatronLM";

INSTANTIATE_TEST_SUITE_P(
    Inputs, BadPlanTest,
    ::testing::Values(
        BadPlan{"spec: {gpus: [}", kH100s, "job: line 1: "},
        BadPlan{"- a\n- b\n", kH100s, "job: is no object: write `key: value` lines"},
        BadPlan{"kind: Job\n", kH100s, "job: kind: \"Job\" is no TrainingJob"},
        BadPlan{JobText("preset: llama-3-70b, ", kMegatron, 0), kH100s, "spec.gpus"},
        BadPlan{JobText("preset: llama-3-70b, ", kMegatron, 4096), kH100s,
                "spec.gpus: 4096 is more than the cluster's outermost level has (1024)"},
        BadPlan{JobText("preset: llama-3-70c, ", kMegatron), kH100s,
                "spec.model.preset: \"llama-3-70c\" is not known: did you mean llama-3-70b?"},
        BadPlan{JobText("", kMegatron), kH100s,
                "spec.model.preset: there are 0 sources of the model"},
        BadPlan{JobText("preset: llama-3-8b, inline: {layers: 1}, ", kMegatron), kH100s,
                "there are 2 sources of the model: state exactly one of preset"},
        BadPlan{JobText("huggingFaceConfigMap: {name: big}, ", kMegatron), kH100s,
                "config.json of ConfigMap \"big\" is not here: give that file with --config"},
        BadPlan{JobText("inline: {layers: 32, hidden: 4096, heads: 0, ffn: 1, vocabulary: 9}, ",
                        kMegatron),
                kH100s, "spec.model.inline.heads: 0 is out of range"},
        BadPlan{JobText("inline: {layers: 32, hiden: 4096}, ", kMegatron), kH100s,
                "hiden: is no field of a model: did you mean hidden?"},
        BadPlan{"kind: TrainingJob\nspec: {gpus: 8, framework: MegatronLM, model: {preset: "
                "llama-3-8b}}\n",
                kH100s, "spec.model.globalBatchSize: missing: the planner needs it"},
        BadPlan{"kind: TrainingJob\nspec: {gpus: 8, framework: MegatronLM}\n", kH100s,
                "spec.model: missing: without it there is no plan"},
        BadPlan{JobText("preset: llama-3-8b, ", "framework: TorchRun"), kH100s,
                "spec.framework: TorchRun has no arguments that could be planned: use -o"},
        BadPlan{JobText("preset: llama-3-8b, precision: FP8, ", "framework: DeepSpeed"), kH100s,
                "spec.model.precision: DeepSpeed has no FP8 training: use BF16"},
        BadPlan{JobText("preset: llama-3-8b, ",
                        kMegatron + "\n  plan: {tensor: 4}\n  container: {command: [x, "
                                    "--tensor-model-parallel-size, '8']}"),
                kH100s, "spec.plan.tensor: is 4, but the command says"},
        BadPlan{kMegatronJob, "gpu: H1000\nlevels: [{name: node, gpus: 8}]\n",
                "cluster: gpu: \"H1000\" is not known: did you mean \"H100\""},
        BadPlan{kMegatronJob, "levels: [{name: node, gpus: 8}]\n", "cluster: gpu: missing"},
        BadPlan{kMegatronJob, "gpu: H100\nlevels: []\n", "levels: there are 0: give 1 to 16"},
        BadPlan{kMegatronJob, "gpu: H100\nlevels: [{name: a, gpus: 8}, {name: b, gpus: 64}]\n",
                "levels[1].gigabytesPerSecond: missing: state a number above 0"},
        BadPlan{kMegatronJob,
                "gpu: H100\nlevels: [{name: a, gpus: 8}, {name: b, gpus: 4, "
                "gigabytesPerSecond: 50}]\n",
                "levels.b.gpus: 4 is not more than the level inside it (8)"},
        BadPlan{kMegatronJob, "gpu: {memoryGibibytes: 80}\nlevels: [{name: a, gpus: 8}]\n",
                "gpu.bf16Teraflops: missing"}));

TEST_F(PlanTest, BatchSmallerThanTheDataDegreeIsNamed) {
  const PlanRun run = Plan(JobText("preset: llama-3-8b, ", kMegatron + "\n  plan: {data: 3}", 48));
  EXPECT_EQ(run.code, kExitNever);
  EXPECT_THAT(run.error, AllOf(HasSubstr("global batch 1024"), HasSubstr("change gpus")));
}

TEST_F(PlanTest, UsageNamesWhatIsMissing) {
  std::ostringstream out;
  std::ostringstream error;
  const Surroundings around{
      .clock = clock_, .out = out, .error = error, .paper = {}, .kubeconfig = {}, .server = ""};
  EXPECT_EQ(RunCommand(std::vector<std::string>{"plan"}, around), kExitUsage);
  EXPECT_THAT(error.str(), HasSubstr("plan -f FILE --cluster FILE"));
  EXPECT_EQ(RunCommand(std::vector<std::string>{"top", "-o", "megatron"}, around), kExitUsage);
  EXPECT_THAT(error.str(), HasSubstr("only plan writes that"));
  EXPECT_EQ(
      RunCommand(std::vector<std::string>{"plan", "-f", "/absent", "--cluster", "/absent"}, around),
      kExitError);
  EXPECT_THAT(error.str(), HasSubstr("--filename: "));
}

TEST(PlanCluster, SlowdownDividesTheBandwidth) {
  const auto cluster = ParsePlanCluster(
      "gpu: H100\nlevels:\n- {name: a, gpus: 8}\n- {name: b, gpus: 64, gigabytesPerSecond: 50, "
      "slowdown: 2}\n");
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->levels[0].gigabytes_per_second, 450);
  EXPECT_EQ(cluster->levels[1].gigabytes_per_second, 25);
}

TEST(YamlDocument, TypesAndBounds) {
  const auto read = ReadYamlDocument("a: 1\nb: '1'\nc: [true, null, 1.5, x]\n");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->dump(), R"({"a":1,"b":"1","c":[true,null,1.5,"x"]})");
  EXPECT_THAT(std::string(ReadYamlDocument("a: 1\na: 2\n").status().message()),
              HasSubstr("line 2: a: is set twice"));
  EXPECT_FALSE(ReadYamlDocument(std::string(100'000, '[')).ok());
  // Ten lines of nine aliases each are three billion values.
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    bomb += fmt::format("a{0}: &a{0} [*a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}]\n", i,
                        i - 1);
  }
  EXPECT_THAT(std::string(ReadYamlDocument(bomb).status().message()), HasSubstr("more than"));
}

}  // namespace
}  // namespace asterism::cli
