#include "operator/job_plan.h"

#include <string>

#include "../scheduler/cluster_fixture.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "job_texts.h"
#include "operator/plan_launch.h"

namespace asterism::operators {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

json ModelSpecOf(int gpus, const char* preset = "llama-3-8b") {
  json spec;
  spec["gpus"] = gpus;
  spec["framework"] = "MegatronLM";
  spec["model"] = {{"preset", preset}, {"globalBatchSize", 512}, {"sequenceLength", 8192}};
  return spec;
}

std::map<std::string, ProductLevels> Products() {
  return {{"NVIDIA-H100-80GB-HBM3", {.gpus = 1024, .gpus_of_domain = {8, 32, 1024}}},
          {"NVIDIA-A100-SXM4-80GB", {.gpus = 512, .gpus_of_domain = {8, 64, 512}}},
          {"NVIDIA-L40S", {.gpus = 256, .gpus_of_domain = {8, 32, 256}}}};
}

const std::vector<std::string> kLevels = {"node", "supernode", "cluster"};

JobPlanQuestion Asked(const json& spec, const PlannerSettings& settings = {},
                      const std::map<std::string, ProductLevels>& products = Products()) {
  const TrainingJob job = JobWith(spec);
  const PlanWish wish = WishOf(job);
  EXPECT_TRUE(wish.wanted()) << wish.no_plan_message;
  EXPECT_EQ(wish.error, "");
  const auto shape = ShapeOf(job.spec, 8, JobClass::kFinetuning);
  EXPECT_TRUE(shape.ok()) << shape.status();
  return QuestionOf(job, wish, products, *shape, kLevels, settings);
}

TEST(LevelsByProduct, CountsTheCommonestDomain) {
  scheduler::TestCluster cluster({"node", "leaf", "cluster"}, 8);
  for (int node = 0; node < 9; ++node) {
    cluster.AddNode(fmt::format("h{}", node), {node < 8 ? fmt::format("L{}", node / 4) : "L9"},
                    "NVIDIA-H100-80GB-HBM3");
  }
  cluster.AddNode("a0", {"L0"}, "NVIDIA-A100-SXM4-80GB");
  cluster.AddNode("unknown", {"L0"});
  cluster.Build();
  const auto products = LevelsByProduct(cluster.ledger(), cluster.gpu_slot());
  ASSERT_EQ(products.size(), 2u);
  const ProductLevels& levels = products.at("NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(levels.gpus, 72);
  EXPECT_THAT(levels.gpus_of_domain, ElementsAre(8, 32, 72));
  EXPECT_THAT(products.at("NVIDIA-A100-SXM4-80GB").gpus_of_domain, ElementsAre(8, 8, 8));
}

TEST(PlanCluster, HasTheLinksOfTheConfigurationOrOfTheGpu) {
  const PlanClusterQuestion question{.gpu = *planner::FindGpu("H100"),
                                     .level_names = kLevels,
                                     .levels = Products().at("NVIDIA-H100-80GB-HBM3"),
                                     .gpus_per_pod = 4,
                                     .gpus = 256};
  planner::ClusterSpec cluster = PlanCluster(question, {});
  ASSERT_EQ(cluster.levels.size(), 3u);
  EXPECT_EQ(cluster.levels[0].gpus, 4) << "what a pod has, not what its node has";
  EXPECT_EQ(cluster.levels[0].gigabytes_per_second, 450);
  EXPECT_EQ(cluster.levels[1].gpus, 32);
  EXPECT_EQ(cluster.levels[1].gigabytes_per_second, 50);
  EXPECT_EQ(cluster.levels[2].gpus, 256);
  cluster = PlanCluster(question, {.links = {{}, {.gigabytes_per_second = 900, .latency_us = 4}}});
  EXPECT_EQ(cluster.levels[1].gigabytes_per_second, 900);
  EXPECT_EQ(cluster.levels[1].latency_us, 4);
  EXPECT_EQ(cluster.levels[2].gigabytes_per_second, 50);
}

TEST(PlanCluster, NothingLiesBeyondWhatHoldsTheWholeJob) {
  PlanClusterQuestion question{.gpu = *planner::FindGpu("H100"),
                               .level_names = kLevels,
                               .levels = {.gpus = 64, .gpus_of_domain = {8, 8, 64}},
                               .gpus_per_pod = 8,
                               .gpus = 32};
  EXPECT_EQ(PlanCluster(question, {}).levels.size(), 2u) << "supernodes of one node are none";
  question.gpus = 8;
  EXPECT_EQ(PlanCluster(question, {}).levels.size(), 1u);
  EXPECT_TRUE(planner::CheckCluster(PlanCluster(question, {})).ok());
}

TEST(GpuOfProduct, KnowsTheNamesOfDiscoveriesAndOnlyWholeGpus) {
  const auto name = [](std::string_view product, const PlannerSettings& settings = {}) {
    const planner::GpuSpec* gpu = GpuOfProduct(product, settings);
    return gpu == nullptr ? std::string_view("none") : gpu->name;
  };
  EXPECT_EQ(name("NVIDIA-H100-80GB-HBM3"), "H100");
  EXPECT_EQ(name("NVIDIA-A100-SXM4-40GB"), "A100-40");
  EXPECT_EQ(name("NVIDIA-A100-SXM4-80GB"), "A100-80");
  EXPECT_EQ(name("NVIDIA-H200"), "H200");
  EXPECT_EQ(name("NVIDIA-GB200"), "GB200");
  EXPECT_EQ(name("NVIDIA-B300-SXM6-AC"), "B300");
  EXPECT_EQ(name("AMD_Instinct_MI300X_OAM"), "MI300X");
  EXPECT_EQ(name("H100"), "H100");
  for (const char* other :
       {"NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "NVIDIA-H100-80GB-HBM3-SHARED", "NVIDIA-H100-PCIe",
        "NVIDIA-H200-NVL", "NVIDIA-L40S", "NVIDIA-A100-SXM-64GB", "NVIDIA-H800", "", "--"}) {
    EXPECT_EQ(name(other), "none") << other;
  }
  EXPECT_EQ(name("NVIDIA-H800", {.gpus_by_product = {{"NVIDIA-H800", "H100"}}}), "H100");
}

TEST(JobPlan, TheLeastGpuSecondsOfTheProductsWin) {
  const JobPlanQuestion question = Asked(ModelSpecOf(64));
  ASSERT_EQ(question.offers.size(), 2u);
  EXPECT_EQ(question.unknown_products, "NVIDIA-L40S");
  EXPECT_EQ(AnswerJobPlan(question).plan.gpu_product, "NVIDIA-H100-80GB-HBM3");
  json spec = ModelSpecOf(64);
  spec["gpuProducts"] = {"NVIDIA-A100-SXM4-80GB"};
  EXPECT_EQ(AnswerJobPlan(Asked(spec)).plan.gpu_product, "NVIDIA-A100-SXM4-80GB");
}

TEST(JobPlan, AProductThatCannotHoldTheGangIsNotPriced) {
  const JobPlanQuestion question = Asked(ModelSpecOf(1024));
  ASSERT_EQ(question.offers.size(), 1u);
  EXPECT_EQ(question.offers[0].product, "NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(Asked(ModelSpecOf(2048)).offers.size(), 2u) << "then the engine says so";
}

TEST(JobPlan, ItIsTheSameForTheSameQuestion) {
  const JobPlanQuestion question = Asked(ModelSpecOf(64));
  const JobPlanAnswer answer = AnswerJobPlan(question);
  ASSERT_GT(answer.plan.gpus, 0) << answer.message;
  EXPECT_EQ(AnswerJobPlan(Asked(ModelSpecOf(64))).plan, answer.plan);
  EXPECT_TRUE(SamePlanAsked(answer.plan, question, /*has_run=*/false));
  json other = ModelSpecOf(64);
  other["plan"]["tensor"] = 4;
  EXPECT_FALSE(SamePlanAsked(answer.plan, Asked(other), /*has_run=*/true));
  // Another network is another plan, but not under a job that has written checkpoints.
  const JobPlanQuestion faster =
      Asked(ModelSpecOf(64), {.links = {{}, {.gigabytes_per_second = 400}}});
  EXPECT_FALSE(SamePlanAsked(answer.plan, faster, /*has_run=*/false));
  EXPECT_TRUE(SamePlanAsked(answer.plan, faster, /*has_run=*/true));
  JobPlanQuestion changed = question;
  SetModelConfig("{}", changed);
  EXPECT_FALSE(SamePlanAsked(answer.plan, changed, /*has_run=*/false));
  EXPECT_TRUE(SamePlanAsked(answer.plan, changed, /*has_run=*/true));
  EXPECT_FALSE(SamePlanAsked({}, question, /*has_run=*/true));
}

TEST(JobPlan, GroupsThatLeaveThePodStayInOneDomain) {
  json spec = ModelSpecOf(256, "llama-3-70b");
  spec["gpusPerPod"] = 4;
  spec["plan"]["tensor"] = 8;
  const JobPlanAnswer answer = AnswerJobPlan(Asked(spec));
  ASSERT_GT(answer.plan.gpus, 0) << answer.message;
  ASSERT_FALSE(answer.plan.blocks.empty());
  EXPECT_EQ(answer.plan.blocks[0].level, "supernode");
  EXPECT_EQ(answer.plan.blocks[0].gpus % 8, 0);
  EXPECT_LE(answer.plan.blocks[0].gpus, 32);
  // Tensor groups of two pods: the activations of every layer, twice there and back.
  EXPECT_GT(answer.plan.blocks[0].bytes_per_step, int64_t{1} << 30);
  for (size_t i = 1; i < answer.plan.blocks.size(); ++i) {
    EXPECT_LT(answer.plan.blocks[i].bytes_per_step, answer.plan.blocks[0].bytes_per_step)
        << "what goes out further is less";
  }
}

TEST(JobPlan, ExpertsHaveTheirDegrees) {
  const JobPlanAnswer answer = AnswerJobPlan(Asked(ModelSpecOf(64, "mixtral-8x7b")));
  ASSERT_GT(answer.plan.gpus, 0) << answer.message;
  EXPECT_THAT(answer.plan.degrees, Contains(testing::Key("expert")));
  EXPECT_THAT(answer.plan.arguments, Contains("--expert-model-parallel-size"));
}

TEST(JobPlan, AProcessForEachGpu) {
  json spec = ModelSpecOf(64);
  spec["processesPerPod"] = 1;
  const JobPlanAnswer answer = AnswerJobPlan(Asked(spec));
  EXPECT_EQ(answer.plan.gpus, 0);
  EXPECT_THAT(answer.message, HasSubstr("spec.processesPerPod: 1 for 8 GPUs"));
}

TEST(JobPlan, TheLongFormOfTheCommandCountsToo) {
  json spec = ModelSpecOf(64);
  json container;
  container["name"] = "trainer";
  container["image"] = "registry.example/train:1";
  container["command"] = {"torchrun", "pretrain_gpt.py", "--pipeline-model-parallel-size", "2"};
  spec["template"]["spec"]["containers"] = json::array();
  spec["template"]["spec"]["containers"].push_back(container);
  const JobPlanAnswer answer = AnswerJobPlan(Asked(spec));
  ASSERT_GT(answer.plan.gpus, 0) << answer.message;
  EXPECT_THAT(answer.plan.degrees, Contains(std::pair<std::string, int64_t>("pipeline", 2)));
  EXPECT_THAT(answer.plan.arguments, Not(Contains("--pipeline-model-parallel-size")));
}

PlanStatus SmallPlan() {
  PlanStatus plan;
  plan.gpus = 8;
  plan.arguments = {"--micro-batch-size", "2"};
  plan.variables = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}};
  return plan;
}

json PodWithPlan(const json& spec, const PlanStatus& plan) {
  const TrainingJob job = JobWith(spec);
  const auto shape = ShapeOf(job.spec, 8, JobClass::kFinetuning);
  const auto builder = PodBuilder::Make(job, *shape, PodSettings{.plan = &plan});
  EXPECT_TRUE(builder.ok()) << builder.status();
  return json::parse(builder->PodBody({.first_rank = 0, .node = "gpu-0008", .epoch = 1}));
}

TEST(PlanLaunch, ArgumentsFollowArgsWhereThereAreSome) {
  json spec = ModelSpecOf(8);
  spec["container"] = {
      {"image", "train:1"}, {"command", {"torchrun"}}, {"args", {"pretrain_gpt.py", "--bf16"}}};
  const json trainer = PodWithPlan(spec, SmallPlan())["spec"]["containers"][0];
  EXPECT_EQ(trainer["command"], json::array({"torchrun"}));
  EXPECT_EQ(trainer["args"], json::array({"pretrain_gpt.py", "--bf16", "--micro-batch-size", "2"}));
}

TEST(PlanLaunch, TheUsersVariableStays) {
  json spec = ModelSpecOf(8);
  json variable;
  variable["name"] = "CUDA_DEVICE_MAX_CONNECTIONS";
  variable["value"] = "8";
  spec["container"] = {{"image", "train:1"}, {"command", {"torchrun", "train.py"}}};
  spec["container"]["env"] = json::array();
  spec["container"]["env"].push_back(variable);
  EXPECT_EQ(VariableOf(PodWithPlan(spec, SmallPlan()), "CUDA_DEVICE_MAX_CONNECTIONS"), "8");
  spec["container"].erase("env");
  EXPECT_EQ(VariableOf(PodWithPlan(spec, SmallPlan()), "CUDA_DEVICE_MAX_CONNECTIONS"), "1");
}

TEST(JobPlan, UnderTorchrunAccelerateReadsItsVariables) {
  json spec = ModelSpecOf(64);
  spec["framework"] = "FSDP";
  const JobPlanAnswer answer = AnswerJobPlan(Asked(spec));
  ASSERT_GT(answer.plan.gpus, 0) << answer.message;
  std::map<std::string, std::string> variables;
  for (const PlanVariable& variable : answer.plan.variables) {
    variables[variable.name] = variable.value;
  }
  EXPECT_EQ(variables["ACCELERATE_USE_FSDP"], "true");
  EXPECT_EQ(variables["FSDP_VERSION"], "2");
  EXPECT_EQ(variables["ACCELERATE_USE_PARALLELISM_CONFIG"], "true");
  int64_t ranks = 1;
  for (const char* size : {"DP_REPLICATE_SIZE", "DP_SHARD_SIZE", "TP_SIZE", "CP_SIZE"}) {
    ranks *= std::stoll(variables[std::string("PARALLELISM_CONFIG_") + size]);
  }
  EXPECT_EQ(ranks, 64);
  EXPECT_LE(answer.plan.variables.size(), 32u) << "what the schema of status.plan allows";
}

TEST(PlanLaunch, AccelerateIsToldItsFile) {
  PlanStatus plan = SmallPlan();
  plan.file_name = "accelerate.yaml";
  plan.file_text = "mixed_precision: bf16 @@1;\n";  // looks like a mark of the builder
  json spec = ModelSpecOf(8);
  spec["framework"] = "FSDP";
  spec["container"] = {{"image", "train:1"}, {"command", {"accelerate", "launch", "train.py"}}};
  const json pod = PodWithPlan(spec, plan);
  EXPECT_EQ(
      pod["spec"]["containers"][0]["command"],
      json::array({"accelerate", "launch", "--config_file", "/etc/asterism-plan/accelerate.yaml",
                   "train.py", "--micro-batch-size", "2"}));
  EXPECT_EQ(pod["metadata"]["annotations"][std::string(kPlanFileAnnotation)], plan.file_text);
}

}  // namespace
}  // namespace asterism::operators
