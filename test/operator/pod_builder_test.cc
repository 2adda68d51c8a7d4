#include "operator/pod_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "nlohmann/json.hpp"
#include "operator/launch_environment.h"
#include "test/operator/job_texts.h"

namespace asterism::operators {
namespace {

using nlohmann::json;

constexpr const char* kTerms =
    "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

json At(const json& object, const char* pointer) {
  const json::json_pointer path(pointer);
  return object.contains(path) ? object.at(path) : json();
}

json SpecWithTemplate(const char* pod) {
  json spec = {{"gpus", 16},
               {"container", {{"image", "i"}, {"command", json::array({"torchrun"})}}}};
  spec["template"]["spec"] = json::parse(pod);
  return spec;
}

TEST(PodBuilder, EachPodKnowsItsBlock) {
  const auto builder = BuilderOf(JobWith({{"gpus", 32}}));
  ASSERT_TRUE(builder.ok()) << builder.status();
  const json pod = json::parse(
      builder->PodBody({.first_rank = 24, .node = "gpu-0008", .epoch = 7, .domain = "sn-2"}));
  EXPECT_EQ(At(pod, "/metadata/name"), "llama-3f2a9-r24-e7");
  EXPECT_EQ(At(pod, "/metadata/name"), PodName({.name = "llama", .uid = "3f2a9c1e-0000"}, 24, 7));
  EXPECT_EQ(At(pod, "/spec/hostname"), "llama-r24");
  EXPECT_EQ(At(pod, "/spec/subdomain"), "llama");
  EXPECT_EQ(At(pod, "/metadata/annotations"),
            json::parse(R"({"asterism.dev/ranks": "24-31", "asterism.dev/epoch": "7",
                            "asterism.dev/pods": "4", "asterism.dev/domain": "sn-2"})"));
  EXPECT_EQ(VariableOf(pod, "NODE_RANK"), "3");
  EXPECT_EQ(VariableOf(pod, "ASTERISM_EPOCH"), "7");
  EXPECT_EQ(VariableOf(pod, "PET_RDZV_ID"), "3f2a9c1e-0000-4000-8000-000000000001-e7");
}

TEST(PodBuilder, TheDryRunHasNoPinAndNoDomain) {
  const auto builder = BuilderOf(JobWith({{"gpus", 16}}));
  const json pod = json::parse(builder->PodBody({}));
  EXPECT_FALSE(pod["spec"].contains("affinity"));
  EXPECT_FALSE(pod["metadata"]["annotations"].contains("asterism.dev/domain"));
  EXPECT_EQ(pod.dump().find('@'), std::string::npos);
}

TEST(PodBuilder, ABoundPodIsThePinnedOneWithItsNode) {
  const auto builder = BuilderOf(JobWith({{"gpus", 32}}));
  ASSERT_TRUE(builder.ok()) << builder.status();
  BlockHome home{.first_rank = 24, .node = "gpu-0008", .epoch = 7, .domain = "sn-2"};
  json pinned = json::parse(builder->PodBody(home));
  EXPECT_FALSE(pinned["spec"].contains("nodeName"));
  home.bound = true;
  pinned["spec"]["nodeName"] = "gpu-0008";
  EXPECT_EQ(json::parse(builder->PodBody(home)), pinned);
}

TEST(PodBuilder, ThePinIsInEachTermOfTheTemplate) {
  const json pin =
      json::parse(R"([{"key": "metadata.name", "operator": "In", "values": ["gpu-0008"]}])");
  json pod = FirstPod({{"gpus", 16}});
  EXPECT_EQ(At(pod, kTerms), json::array({{{"matchFields", pin}}}));
  pod = FirstPod(SpecWithTemplate(R"({"affinity": {
      "podAntiAffinity": {"x": 1},
      "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
          {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
          {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["x"]}]}]}}}})"));
  EXPECT_EQ(At(pod, kTerms), json::parse(R"([
      {"matchExpressions": [{"key": "zone", "operator": "Exists"}],
       "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-0008"]}]},
      {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["x"]},
                       {"key": "metadata.name", "operator": "In", "values": ["gpu-0008"]}]}])"));
  EXPECT_EQ(At(pod, "/spec/affinity/podAntiAffinity/x"), 1);
  pod = FirstPod(SpecWithTemplate(R"({"affinity": {"nodeAffinity": {
      "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}})"));
  EXPECT_EQ(At(pod, kTerms), json::array({{{"matchFields", pin}}}));
}

TEST(PodBuilder, ToleratesTheTaintsOfGpuNodesOnce) {
  const json pod = FirstPod(SpecWithTemplate(R"({"tolerations": [
      {"key": "mine", "operator": "Exists"},
      {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]})"));
  EXPECT_EQ(At(pod, "/spec/tolerations"), json::parse(R"([
      {"key": "mine", "operator": "Exists"},
      {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
      {"key": "asterism.dev/managed", "operator": "Exists", "effect": "NoSchedule"}])"));
}

TEST(PodBuilder, SharedMemoryIsAMemoryVolume) {
  json pod = FirstPod({{"gpus", 16}});
  EXPECT_EQ(At(pod, "/spec/volumes"),
            json::parse(R"([{"name": "asterism-shm", "emptyDir": {"medium": "Memory"}}])"));
  EXPECT_EQ(At(pod, "/spec/containers/0/volumeMounts"),
            json::parse(R"([{"name": "asterism-shm", "mountPath": "/dev/shm"}])"));
  pod = FirstPod({{"gpus", 16}, {"sharedMemory", "64Gi"}});
  EXPECT_EQ(At(pod, "/spec/volumes/0/emptyDir/sizeLimit"), "64Gi");
  pod = FirstPod({{"gpus", 16}, {"sharedMemory", "Off"}});
  EXPECT_FALSE(pod["spec"].contains("volumes"));
  pod = FirstPod(json::parse(R"({"gpus": 16, "volumes": [{"name": "shm", "emptyDir": {}}],
      "container": {"image": "i", "command": ["c"],
                    "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm/"}]}})"));
  EXPECT_EQ(pod["spec"]["volumes"].size(), 1u);
}

TEST(PodBuilder, KeepsTheUsersResourcesAndSetsTheGpus) {
  const json pod =
      FirstPod(json::parse(R"({"gpus": 16, "gpusPerPod": 4, "resourceName": "amd.com/gpu",
      "container": {"image": "i", "command": ["c"], "resources": {
        "limits": {"memory": "1Ti", "rdma/hca": 8}, "requests": {"cpu": "64"}}}})"));
  EXPECT_EQ(At(pod, "/spec/containers/0/resources"), json::parse(R"({
      "limits": {"memory": "1Ti", "rdma/hca": 8, "amd.com/gpu": "4"},
      "requests": {"cpu": "64", "amd.com/gpu": "4"}})"));
  EXPECT_EQ(At(pod, "/spec/tolerations/1/key"), "amd.com/gpu");
}

TEST(PodBuilder, TheUsersOwnVariablesWin) {
  const json pod = FirstPod(json::parse(R"({"gpus": 16, "container": {
      "image": "i", "command": ["c"], "env": [
        {"name": "MASTER_PORT", "value": "1234"}, {"name": "PET_MAX_RESTARTS", "value": "2"},
        {"name": "NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "STORE", "value": "tcp://$(MASTER_ADDR):1"}]}})"));
  EXPECT_EQ(VariableOf(pod, "MASTER_PORT"), "1234");
  EXPECT_EQ(VariableOf(pod, "PET_MASTER_PORT"), "1234");
  EXPECT_EQ(VariableOf(pod, "PET_RDZV_ENDPOINT"), "llama-r0.llama.research.svc:1234");
  EXPECT_EQ(VariableOf(pod, "PET_MAX_RESTARTS"), "2");
  EXPECT_EQ(VariableOf(pod, "NODE_RANK"), "from elsewhere");
  std::map<std::string, int> times;
  for (const json& variable : pod["spec"]["containers"][0]["env"]) {
    ++times[variable["name"]];
  }
  for (const auto& [name, count] : times) {
    EXPECT_EQ(count, 1) << name;
  }
  // Kubernetes expands $(NAME) only from variables that stand before.
  EXPECT_EQ(At(pod, "/spec/containers/0/env/0/name"), "MASTER_ADDR");
  EXPECT_EQ(pod["spec"]["containers"][0]["env"].back()["name"], "STORE");
}

TEST(PodBuilder, PodsOnTheHostNetworkGetAPortAndDnsOfTheCluster) {
  json spec = SpecWithTemplate(R"({"hostNetwork": true})");
  json pod = FirstPod(spec);
  EXPECT_EQ(VariableOf(pod, "MASTER_PORT"),
            std::to_string(HostNetworkMasterPort("3f2a9c1e-0000-4000-8000-000000000001")));
  EXPECT_EQ(At(pod, "/spec/dnsPolicy"), "ClusterFirstWithHostNet");
  spec["masterPort"] = 29500;
  EXPECT_EQ(VariableOf(FirstPod(spec), "MASTER_PORT"), "29500");
  pod = FirstPod(SpecWithTemplate(R"({"hostNetwork": true, "dnsPolicy": "None"})"));
  EXPECT_EQ(At(pod, "/spec/dnsPolicy"), "None");
  pod = FirstPod({{"gpus", 16}});
  EXPECT_EQ(VariableOf(pod, "MASTER_PORT"), "29500");
  EXPECT_FALSE(pod["spec"].contains("dnsPolicy"));
}

TEST(PodBuilder, PriorityAndSchedulerComeFromTheirOwners) {
  const json pod = FirstPod({{"gpus", 16}, {"priorityClassName", "high"}});
  EXPECT_EQ(At(pod, "/spec/priorityClassName"), "high");
  EXPECT_EQ(At(pod, "/spec/schedulerName"), "asterism");
  const TrainingJob job = JobWith({{"gpus", 16}});
  const auto builder =
      PodBuilder::Make(job, *ShapeOf(job.spec, 8, JobClass::kSearch), {.scheduler_name = "second"});
  const json other = json::parse(builder->PodBody({}));
  EXPECT_EQ(At(other, "/spec/schedulerName"), "second");
  EXPECT_EQ(At(other, "/metadata/labels")["asterism.dev/class"], "search");
  EXPECT_FALSE(other["spec"].contains("priorityClassName"));
}

TEST(PodBuilder, MpiNeedsTheLauncher) {
  const auto builder = BuilderOf(JobWith({{"gpus", 16}, {"framework", "MPI"}}));
  EXPECT_EQ(builder.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(builder.status().message()),
            "spec.framework: MPI needs asterism-launch, which this installation does not have: use "
            "TorchRun, DeepSpeed or Plain, or set launcher.image in its configuration");
}

json LaunchedPod(const json& spec, const BlockHome& home = {}) {
  const TrainingJob job = JobWith(spec);
  const auto builder = PodBuilder::Make(job, *ShapeOf(job.spec, 8, JobClass::kSearch),
                                        {.launcher_image = "registry.example/launch:1"});
  EXPECT_TRUE(builder.ok()) << builder.status();
  return json::parse(builder->PodBody(home));
}

TEST(PodBuilder, TheCommandRunsUnderTheLauncher) {
  const json pod = LaunchedPod({{"gpus", 16},
                                {"progress", {{"file", "/tmp/progress"}}},
                                {"container",
                                 {{"image", "i"},
                                  {"command", json::array({"torchrun", "a.py"})},
                                  {"args", json::array({"-x"})}}}});
  const json& trainer = pod["spec"]["containers"][0];
  EXPECT_EQ(trainer["command"],
            json::array({"/opt/asterism/asterism-launch", "--", "torchrun", "a.py"}));
  EXPECT_EQ(trainer["args"], json::array({"-x"}));
  EXPECT_EQ(VariableOf(pod, "ASTERISM_PROGRESS_FILE"), "/tmp/progress");
  const json& init = pod["spec"]["initContainers"][0];
  EXPECT_EQ(init["image"], "registry.example/launch:1");
  EXPECT_EQ(init["args"], json::array({"copy", "/opt/asterism"}));
  // What the PodSecurity profile "restricted" asks of a container.
  const json& security = init["securityContext"];
  EXPECT_EQ(security["runAsNonRoot"], true);
  EXPECT_EQ(security["allowPrivilegeEscalation"], false);
  EXPECT_EQ(security["capabilities"]["drop"], json::array({"ALL"}));
  EXPECT_EQ(security["seccompProfile"]["type"], "RuntimeDefault");
  EXPECT_FALSE(trainer["resources"]["limits"].contains("asterism.dev/port"));
}

TEST(PodBuilder, ThePortIsAskedForWhereTheNodeOffersIt) {
  const json spec = {{"gpus", 16},
                     {"container", {{"image", "i"}, {"command", json::array({"x"})}}}};
  BlockHome home{.first_rank = 8, .node = "gpu-1", .epoch = 2, .domain = "sn-0", .port = true};
  const json with = LaunchedPod(spec, home);
  EXPECT_EQ(with["spec"]["containers"][0]["resources"]["limits"]["asterism.dev/port"], "1");
  EXPECT_EQ(At(with, "/metadata/name"), "llama-3f2a9-r8-e2");
  EXPECT_EQ(At(with, "/metadata/annotations")["asterism.dev/domain"], "sn-0");
  home.bound = true;
  EXPECT_EQ(LaunchedPod(spec, home)["spec"]["nodeName"], "gpu-1");
  // Without a launcher nobody would use it.
  const auto plain = BuilderOf(JobWith(spec));
  EXPECT_EQ(plain->PodBody(home).find("asterism.dev/port"), std::string::npos);
}

TEST(PodBuilder, LauncherOffLeavesTheCommandAlone) {
  const json pod = LaunchedPod({{"gpus", 16},
                                {"launcher", "Off"},
                                {"container", {{"image", "i"}, {"command", json::array({"x"})}}}});
  EXPECT_EQ(pod["spec"]["containers"][0]["command"], json::array({"x"}));
  EXPECT_FALSE(pod["spec"].contains("initContainers"));
}

TEST(PodBuilder, RanksOfAnMpiJobButTheFirstWaitForIt) {
  const json spec = {
      {"gpus", 24},
      {"framework", "MPI"},
      {"container",
       {{"image", "i"}, {"command", json::array({"mpirun", "a"})}, {"args", json::array({"b"})}}}};
  const json first = LaunchedPod(spec, {.first_rank = 0, .node = "n0", .epoch = 1});
  const json other =
      LaunchedPod(spec, {.first_rank = 16, .node = "n2", .epoch = 1, .domain = "d", .port = true});
  EXPECT_EQ(first["spec"]["containers"][0]["command"],
            json::array({"/opt/asterism/asterism-launch", "--", "mpirun", "a"}));
  const json& worker = other["spec"]["containers"][0];
  EXPECT_EQ(worker["command"], json::array({"/opt/asterism/asterism-launch", "--",
                                            "/opt/asterism/asterism-launch", "worker"}));
  EXPECT_FALSE(worker.contains("args"));
  EXPECT_EQ(worker["resources"]["limits"]["asterism.dev/port"], "1");
  for (const json& pod : {first, other}) {
    EXPECT_EQ(VariableOf(pod, "OMPI_MCA_plm_rsh_agent"), "/opt/asterism/asterism-launch rsh");
    EXPECT_EQ(VariableOf(pod, "ASTERISM_REMOTE_PORT"), "29501");
    EXPECT_EQ(VariableOf(pod, "ASTERISM_JOB_KEY"), "/etc/asterism-key/key");
    EXPECT_NE(pod.dump().find("\"secretName\":\"llama-3f2a9-key\""), std::string::npos);
  }
  const TrainingJob job = JobWith(spec);
  const auto builder =
      PodBuilder::Make(job, *ShapeOf(job.spec, 8, JobClass::kSearch), {.launcher_image = "l"});
  const json secret = json::parse(builder->KeyBody("abc"));
  EXPECT_EQ(secret["metadata"]["name"], "llama-3f2a9-key");
  EXPECT_EQ(secret["stringData"]["key"], "abc");
  EXPECT_EQ(secret["metadata"]["ownerReferences"][0]["kind"], "TrainingJob");
}

TEST(PodBuilder, MpiDoesNotGoWithoutTheLauncher) {
  const TrainingJob job =
      JobWith({{"gpus", 16},
               {"framework", "MPI"},
               {"launcher", "Off"},
               {"container", {{"image", "i"}, {"command", json::array({"x"})}}}});
  const auto builder =
      PodBuilder::Make(job, *ShapeOf(job.spec, 8, JobClass::kSearch), {.launcher_image = "l"});
  EXPECT_THAT(std::string(builder.status().message()), testing::HasSubstr("spec.launcher"));
}

TEST(PodBuilder, RefusesAHostFileThatNoConfigMapHolds) {
  const json spec = {{"gpus", 102400}, {"framework", "DeepSpeed"}, {"gpusPerPod", 1}};
  EXPECT_THAT(WhyNoPods(spec), testing::StartsWith("spec.framework: the host file of 102400 pods"));
}

TEST(PodBuilder, RefusesNamesThatAreNoHostNames) {
  for (const char* name : {"Llama", "1llama", "llama-", "-llama", "ll.ama", "l/../x", "ll\"ama",
                           "a-name-that-is-longer-than-forty-characters"}) {
    TrainingJob job = JobWith({{"gpus", 16}});
    job.meta.name = name;
    const auto builder = BuilderOf(job);
    ASSERT_FALSE(builder.ok()) << name;
    EXPECT_THAT(std::string(builder.status().message()),
                testing::HasSubstr("cannot become a host name"));
  }
  TrainingJob job = JobWith({{"gpus", 16}});
  job.meta.uid.clear();
  EXPECT_FALSE(BuilderOf(job).ok());
}

}  // namespace
}  // namespace asterism::operators
