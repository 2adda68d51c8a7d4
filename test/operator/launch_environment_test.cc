#include "operator/launch_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "fmt/format.h"
#include "test/operator/job_texts.h"

namespace asterism::operators {
namespace {

using testing::IsSupersetOf;
using testing::Pair;
using testing::UnorderedElementsAre;
using Variables = std::map<std::string, std::string>;

Variables VariablesOf(Framework framework, int64_t processes_per_pod) {
  const LaunchFacts facts{.framework = framework,
                          .job = "llama",
                          .uid = "uid-1",
                          .pods = 4,
                          .processes_per_pod = processes_per_pod,
                          .master_address = "llama-r0.llama.research.svc",
                          .master_port = "29500"};
  Variables variables;
  for (const LaunchVariable& variable : LaunchEnvironment(facts, {"16", "2", "3"})) {
    EXPECT_TRUE(variables.emplace(variable.name, variable.value).second) << variable.name;
  }
  return variables;
}

TEST(LaunchEnvironment, EveryFrameworkLearnsItsPlace) {
  for (const Framework framework : {Framework::kTorchRun, Framework::kMegatronLm,
                                    Framework::kDeepSpeed, Framework::kFsdp, Framework::kMpi}) {
    EXPECT_THAT(VariablesOf(framework, 8),
                IsSupersetOf({Pair("MASTER_ADDR", "llama-r0.llama.research.svc"),
                              Pair("MASTER_PORT", "29500"), Pair("WORLD_SIZE", "32"),
                              Pair("NODE_RANK", "2"), Pair("NNODES", "4"),
                              Pair("ASTERISM_JOB", "llama"), Pair("ASTERISM_EPOCH", "3"),
                              Pair("ASTERISM_RANK_FIRST", "16"), Pair("ASTERISM_RANKS", "8")}))
        << ToString(framework);
  }
}

TEST(LaunchEnvironment, TorchrunTakesItsNodeRankFromTheStaticBackend) {
  for (const Framework framework :
       {Framework::kTorchRun, Framework::kMegatronLm, Framework::kDeepSpeed, Framework::kFsdp}) {
    EXPECT_THAT(VariablesOf(framework, 8),
                IsSupersetOf({Pair("PET_NNODES", "4"), Pair("PET_NPROC_PER_NODE", "8"),
                              Pair("PET_NODE_RANK", "2"), Pair("PET_RDZV_BACKEND", "static"),
                              Pair("PET_RDZV_ENDPOINT", "llama-r0.llama.research.svc:29500"),
                              Pair("PET_RDZV_ID", "uid-1-e3"),
                              Pair("PET_MASTER_ADDR", "llama-r0.llama.research.svc"),
                              Pair("PET_MASTER_PORT", "29500"), Pair("PET_MAX_RESTARTS", "0")}))
        << ToString(framework);
  }
  EXPECT_EQ(VariablesOf(Framework::kMpi, 8).count("PET_NNODES"), 0u);
}

TEST(LaunchEnvironment, PlainWithOneProcessIsItsRank) {
  EXPECT_THAT(VariablesOf(Framework::kPlain, 1),
              UnorderedElementsAre(Pair("MASTER_ADDR", "llama-r0.llama.research.svc"),
                                   Pair("MASTER_PORT", "29500"), Pair("WORLD_SIZE", "4"),
                                   Pair("NODE_RANK", "2"), Pair("NNODES", "4"),
                                   Pair("ASTERISM_JOB", "llama"), Pair("ASTERISM_EPOCH", "3"),
                                   Pair("ASTERISM_RANK_FIRST", "16"), Pair("ASTERISM_RANKS", "1"),
                                   Pair("RANK", "16"), Pair("LOCAL_RANK", "0")));
  EXPECT_EQ(VariablesOf(Framework::kPlain, 8).count("RANK"), 0u);
}

TEST(LaunchEnvironment, TheHostFileIsInRankOrder) {
  EXPECT_EQ(HostFile({.namespace_name = "research", .name = "llama"},
                     {.pods = 3, .gpus_per_pod = 8, .processes_per_pod = 8}),
            "llama-r0.llama.research.svc slots=8\n"
            "llama-r8.llama.research.svc slots=8\n"
            "llama-r16.llama.research.svc slots=8\n");
  EXPECT_EQ(VariablesOf(Framework::kDeepSpeed, 8)["ASTERISM_HOSTFILE"], "/etc/asterism/hostfile");
  EXPECT_EQ(VariablesOf(Framework::kMpi, 8)["ASTERISM_HOSTFILE"], "/etc/asterism/hostfile");
  EXPECT_EQ(VariablesOf(Framework::kTorchRun, 8).count("ASTERISM_HOSTFILE"), 0u);
}

TEST(LaunchEnvironment, PortsOfHostNetworksStayInTheirRangeAndSpread) {
  std::set<int64_t> ports;
  for (int i = 0; i < 1000; ++i) {
    const int64_t port = HostNetworkMasterPort(fmt::format("3f2a9c1e-0000-4000-8000-{:012}", i));
    EXPECT_GE(port, 20000);
    EXPECT_LE(port, 29999);
    ports.insert(port);
  }
  EXPECT_GT(ports.size(), 900u);  // 952 expected of 1000 draws from 10000
  EXPECT_EQ(HostNetworkMasterPort("a"), HostNetworkMasterPort("a"));
}

// Whatever the nodes are called and in whatever order they stand, torchrun computes
// rank = node rank x processes + local rank from the environment alone.
TEST(LaunchEnvironment, RankIsThePlaceForEveryOrderOfNodeNames) {
  for (std::vector<std::string> nodes :
       {std::vector<std::string>{"node66", "node7", "node70", "node8"},
        {"gpu-1", "gpu-10", "gpu-2", "gpu-20"}}) {
    std::sort(nodes.begin(), nodes.end());
    const auto builder = BuilderOf(JobWith({{"gpus", 32}}));
    ASSERT_TRUE(builder.ok());
    do {
      for (int64_t block = 0; block < 4; ++block) {
        const nlohmann::json pod = nlohmann::json::parse(builder->PodBody(
            {.first_rank = block * 8, .node = nodes[static_cast<size_t>(block)], .epoch = 1}));
        EXPECT_EQ(VariableOf(pod, "PET_NODE_RANK"), std::to_string(block));
        EXPECT_EQ(VariableOf(pod, "PET_RDZV_BACKEND"), "static");
        EXPECT_EQ(VariableOf(pod, "ASTERISM_RANK_FIRST"), std::to_string(block * 8));
        EXPECT_EQ(VariableOf(pod, "MASTER_ADDR"), "llama-r0.llama.research.svc");
      }
    } while (std::next_permutation(nodes.begin(), nodes.end()));
  }
}

TEST(CommandWarning, SpeaksWhenNobodyStartsTheOtherRanks) {
  const std::string warning =
      "command starts python but processesPerPod is 8: nobody starts the other ranks; use torchrun "
      "or processesPerPod: 1";
  const std::string warning3 =
      "command starts python3 but processesPerPod is 8: nobody starts the other ranks; use "
      "torchrun or processesPerPod: 1";
  struct Case {
    nlohmann::json command;
    std::string expected;
  };
  const Case cases[] = {
      {{"python", "train.py"}, warning},
      {{"/opt/conda/bin/python3", "-u", "train.py"}, warning3},
      {{"python", "train.py", "--deepspeed", "config.json"}, warning},
      {{"bash", "-c", "exec python train.py"}, warning},
      {{"/bin/sh", "-ec", "  python train.py"}, warning},
      {{"torchrun", "train.py"}, ""},
      {{"python", "-m", "torch.distributed.run", "train.py"}, ""},
      {{"python3", "-m", "deepspeed.launcher.runner", "train.py"}, ""},
      {{"python", "/usr/local/bin/torchrun", "train.py"}, ""},
      {{"bash", "-c", "python prepare.py && torchrun train.py"}, ""},
      {{"bash", "train.sh"}, ""},
      {{"pythonic"}, ""},
      {{"bash", "-c", ""}, ""},
  };
  for (const Case& c : cases) {
    const TrainingJob job =
        JobWith({{"gpus", 16}, {"container", {{"image", "i"}, {"command", c.command}}}});
    const auto shape = ShapeOf(job.spec, 8, JobClass::kFinetuning);
    EXPECT_EQ(CommandWarning(job, *shape), c.expected) << c.command;
  }
}

TEST(CommandWarning, ReadsTheTemplateAndStaysSilentWhereOneProcessIsMeant) {
  const nlohmann::json in_template = nlohmann::json::parse(R"({
    "gpus": 16, "container": {"args": ["train.py"]},
    "template": {"spec": {"containers": [
      {"name": "trainer", "image": "i", "command": ["python"]}]}}})");
  TrainingJob job = JobWith(in_template);
  EXPECT_NE(CommandWarning(job, *ShapeOf(job.spec, 8, JobClass::kFinetuning)), "");
  for (const auto& [field, value] :
       std::map<std::string, nlohmann::json>{{"framework", "Plain"}, {"processesPerPod", 1}}) {
    nlohmann::json spec = in_template;
    spec[field] = value;
    job = JobWith(spec);
    EXPECT_EQ(CommandWarning(job, *ShapeOf(job.spec, 8, JobClass::kFinetuning)), "");
  }
}

}  // namespace
}  // namespace asterism::operators
