#include "operator/pod_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "test/operator/job_texts.h"

namespace asterism::operators {
namespace {

using nlohmann::json;

json Merge(const char* spec) {
  return MergePodTemplate({{"spec", json::parse(spec)}}, "trainer");
}

// A spec whose template holds `pod`, with a training container.
std::string WhyNotInTemplate(const char* pod) {
  json spec = {{"gpus", 16},
               {"container", {{"image", "i"}, {"command", json::array({"torchrun"})}}}};
  spec["template"]["spec"] = json::parse(pod);
  return WhyNoPods(spec);
}

std::string WhyNot(const char* fields) {
  json spec = json::parse(fields);
  spec["gpus"] = 16;
  if (!spec.contains("container")) {
    spec["container"] = {{"image", "i"}, {"command", json::array({"torchrun"})}};
  }
  return WhyNoPods(spec);
}

TEST(MergePodTemplate, TheShortFormAloneIsAPod) {
  EXPECT_EQ(Merge(R"({"container": {"image": "i", "command": ["c"]},
                      "volumes": [{"name": "data", "emptyDir": {}}],
                      "serviceAccountName": "sa", "imagePullSecrets": [{"name": "s"}]})"),
            json::parse(R"({"metadata": {}, "spec": {
                      "containers": [{"name": "trainer", "image": "i", "command": ["c"]}],
                      "volumes": [{"name": "data", "emptyDir": {}}],
                      "serviceAccountName": "sa", "imagePullSecrets": [{"name": "s"}]}})"));
}

TEST(MergePodTemplate, TheContainerGoesOverTheOneOfItsName) {
  EXPECT_EQ(Merge(R"({
    "container": {
      "name": "trainer", "image": "new", "args": ["--b"],
      "env": [{"name": "A", "value": "2"}, {"name": "C", "value": "3"}],
      "resources": {"limits": {"memory": "2Gi"}},
      "volumeMounts": [{"name": "y", "mountPath": "/x"}],
      "securityContext": {"runAsUser": 7}},
    "template": {"spec": {"containers": [
      {"name": "sidecar", "image": "s"},
      {"name": "trainer", "image": "old", "command": ["c"], "args": ["--a"],
       "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}],
       "resources": {"limits": {"memory": "1Gi", "cpu": "4"}, "requests": {"cpu": "2"}},
       "volumeMounts": [{"name": "x", "mountPath": "/x"}, {"name": "x", "mountPath": "/z"}],
       "securityContext": {"runAsUser": 1, "capabilities": {"add": ["IPC_LOCK"]}},
       "livenessProbe": {"exec": {}}, "fieldOfTomorrow": 1}]}}})"),
            json::parse(R"({"metadata": {}, "spec": {"containers": [
      {"name": "sidecar", "image": "s"},
      {"name": "trainer", "image": "new", "command": ["c"], "args": ["--b"],
       "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "1"},
               {"name": "C", "value": "3"}],
       "resources": {"limits": {"memory": "2Gi", "cpu": "4"}, "requests": {"cpu": "2"}},
       "volumeMounts": [{"name": "y", "mountPath": "/x"}, {"name": "x", "mountPath": "/z"}],
       "securityContext": {"runAsUser": 7, "capabilities": {"add": ["IPC_LOCK"]}},
       "livenessProbe": {"exec": {}}, "fieldOfTomorrow": 1}]}})"));
}

TEST(MergePodTemplate, ATemplateKeepsWhatIsNotKnownHere) {
  EXPECT_EQ(Merge(R"({
    "container": {"image": "i"},
    "volumes": [{"name": "a", "emptyDir": {}}],
    "template": {
      "metadata": {"labels": {"l": "1"}, "annotations": {"a": "1"}, "finalizers": ["f/f"],
                   "name": "ignored"},
      "spec": {"containers": [{"name": "sidecar"}],
               "volumes": [{"name": "a", "hostPath": {"path": "/a"}}, {"name": "b"}],
               "terminationGracePeriodSeconds": 120, "nodeSelector": {"zone": "a"},
               "fieldOfTomorrow": {"x": [1]}, "hostIPC": null}}})"),
            json::parse(R"({
      "metadata": {"labels": {"l": "1"}, "annotations": {"a": "1"}, "finalizers": ["f/f"]},
      "spec": {"containers": [{"name": "trainer", "image": "i"}, {"name": "sidecar"}],
               "volumes": [{"name": "a", "emptyDir": {}}, {"name": "b"}],
               "terminationGracePeriodSeconds": 120, "nodeSelector": {"zone": "a"},
               "fieldOfTomorrow": {"x": [1]}}})"));
}

TEST(CheckPodTemplate, RefusesWhatHasAnOwnerElsewhere) {
  const std::string single_nodes =
      "names single nodes, and the placement decides those: use a label that a group of nodes "
      "shares, or cordon the nodes to avoid";
  const std::string node_terms =
      "spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
      "nodeSelectorTerms";
  const std::pair<const char*, std::string> cases[] = {
      {R"({"schedulerName": "x"})",
       "spec.template.spec.schedulerName: the operator sets it: leave it out"},
      {R"({"nodeName": "x"})",
       "spec.template.spec.nodeName: the placement decides the node: leave it out, or narrow the "
       "nodes with nodeSelector"},
      {R"({"nodeSelector": {"kubernetes.io/hostname": "gpu-0"}})",
       "spec.template.spec.nodeSelector: " + single_nodes},
      {R"({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
           {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname",
            "operator": "In", "values": ["a"]}]}]}}}})",
       node_terms + "[0].matchExpressions[0].key: " + single_nodes},
      {R"({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
           {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name",
            "operator": "In", "values": ["a"]}]}]}}}})",
       node_terms + "[0].matchFields[0].key: " + single_nodes},
      {R"({"hostname": "x"})",
       "spec.template.spec.hostname: the rank decides the host name: leave it out"},
      {R"({"subdomain": "x"})",
       "spec.template.spec.subdomain: it is the name of the job: leave it out"},
      {R"({"restartPolicy": "Always"})",
       "spec.template.spec.restartPolicy: only Never: leave it out and use spec.failurePolicy"},
      {R"({"schedulingGates": []})",
       "spec.template.spec.schedulingGates: pods are created when their place is decided: leave it "
       "out and use spec.suspend"},
      {R"({"schedulingGroup": {}})",
       "spec.template.spec.schedulingGroup: leave it out and use spec.nativeGang"},
      {R"({"priorityClassName": "x"})",
       "spec.template.spec.priorityClassName: leave it out and use spec.priorityClassName"},
      {R"({"restartPolicy": "Never"})", ""},
      {R"({"schedulerName": null})", ""},
  };
  for (const auto& [pod, message] : cases) {
    EXPECT_EQ(WhyNotInTemplate(pod), message) << pod;
  }
}

TEST(CheckPodTemplate, RefusesReservedNames) {
  const std::string names = ": names that start with asterism are reserved: use another name";
  EXPECT_EQ(WhyNotInTemplate(R"({"containers": [{"name": "asterism-agent"}]})"),
            "spec.template.spec.containers[0].name" + names);
  EXPECT_EQ(WhyNotInTemplate(R"({"initContainers": [{"name": "asterism"}]})"),
            "spec.template.spec.initContainers[0].name" + names);
  EXPECT_EQ(WhyNotInTemplate(R"({"volumes": [{"name": "asterism-shm"}]})"),
            "spec.template.spec.volumes[0].name" + names);
  EXPECT_EQ(WhyNot(R"({"volumes": [{"name": "asterism-hosts"}]})"), "spec.volumes[0].name" + names);
  EXPECT_EQ(WhyNot(R"({"container": {"name": "asterism", "image": "i", "command": ["c"]}})"),
            "spec.container.name" + names);
  const std::string variables =
      ": ASTERISM_EPOCH: variables that start with ASTERISM_ are reserved: use another name";
  EXPECT_EQ(WhyNot(R"({"container": {"image": "i", "command": ["c"],
                                     "env": [{"name": "ASTERISM_EPOCH", "value": "9"}]}})"),
            "spec.container.env[0].name" + variables);
  EXPECT_EQ(WhyNotInTemplate(R"({"initContainers": [{"name": "a", "env": [
                                 {"name": "B"}, {"name": "ASTERISM_EPOCH"}]}]})"),
            "spec.template.spec.initContainers[0].env[1].name" + variables);
  EXPECT_EQ(WhyNot(R"({"template": {"metadata": {"labels": {"asterism.dev/live": "false"}}}})"),
            "spec.template.metadata.labels.asterism.dev/live: keys that start with asterism are "
            "reserved: use another key");
  EXPECT_EQ(WhyNot(R"({"container": {"image": "i", "command": ["c"], "volumeMounts": [
                        {"name": "x", "mountPath": "/etc/asterism/"}]}})"),
            "spec.container.volumeMounts[0].mountPath: /etc/asterism is reserved: mount it "
            "elsewhere");
}

TEST(CheckPodTemplate, NoContainerAsksForTheWaysToTheAgent) {
  const auto why = [](const char* list, const std::string& part, const json& amount) {
    json container = {{"name", "side"}, {"image", "i"}};
    container["resources"][part] = {{"cpu", 1}, {"asterism.dev/port", amount}};
    json pod;
    pod[list] = json::array({container});
    return WhyNotInTemplate(pod.dump().c_str());
  };
  const std::string reserved =
      ".asterism.dev/port: resources of asterism.dev are reserved: leave it out, the operator asks "
      "for what a pod needs";
  for (const json& amount : {json("1024"), json(1)}) {
    for (const std::string part : {"limits", "requests"}) {
      for (const std::string list : {"containers", "initContainers"}) {
        EXPECT_EQ(why(list.c_str(), part, amount),
                  "spec.template.spec." + list + "[0].resources." + part + reserved);
      }
    }
  }
  EXPECT_EQ(WhyNot(R"({"container": {"image": "i", "command": ["c"],
                       "resources": {"limits": {"asterism.dev/port": 2}}}})"),
            "spec.container.resources.limits" + reserved);
}

TEST(CheckPodTemplate, GpusAreGpusPerPodOfTheTrainingContainer) {
  EXPECT_EQ(
      WhyNot(R"({"container": {"image": "i", "command": ["c"],
                                     "resources": {"limits": {"nvidia.com/gpu": 4}}}})"),
      "spec.container.resources.limits.nvidia.com/gpu: it is not gpusPerPod (8): leave it out, "
      "gpusPerPod sets it");
  EXPECT_EQ(WhyNot(R"({"container": {"image": "i", "command": ["c"],
                                     "resources": {"requests": {"nvidia.com/gpu": "all"}}}})"),
            "spec.container.resources.requests.nvidia.com/gpu: it is not gpusPerPod (8): leave it "
            "out, gpusPerPod sets it");
  for (const char* amount : {"8", "\"8\""}) {
    EXPECT_EQ(WhyNot(fmt::format(R"({{"container": {{"image": "i", "command": ["c"],
                         "resources": {{"limits": {{"nvidia.com/gpu": {}}}}}}}}})",
                                 amount)
                         .c_str()),
              "");
  }
  EXPECT_EQ(WhyNotInTemplate(R"({"containers": [{"name": "sidecar",
                                 "resources": {"limits": {"nvidia.com/gpu": 8}}}]})"),
            "spec.template.spec.containers[0].resources.limits.nvidia.com/gpu: only the container "
            "trainer may have nvidia.com/gpu: remove it from the others");
}

TEST(CheckPodTemplate, WantsAnImageAndACommand) {
  EXPECT_EQ(WhyNot(R"({"container": {"command": ["c"]}})"),
            "spec.container.image: required: state it here, or in the container of this name in "
            "template");
  EXPECT_EQ(
      WhyNot(R"({"container": {"image": "i"}})"),
      "spec.container.command: required, since the entry point of an image cannot be wrapped: "
      "state the command, or set launcher: \"Off\"");
  EXPECT_EQ(WhyNot(R"({"container": {"image": "i"}, "launcher": "Off"})"), "");
  EXPECT_EQ(WhyNot(R"({"container": {"command": ["c"]}, "template": {"spec": {"containers": [
                        {"name": "trainer", "image": "i"}]}}})"),
            "");
}

TEST(CheckPodTemplate, RefusesWrongTypesAndEmptyTerms) {
  EXPECT_EQ(WhyNotInTemplate(R"({"tolerations": {}})"),
            "spec.template.spec.tolerations: must be a list, not an object");
  EXPECT_EQ(WhyNotInTemplate(R"({"affinity": {"nodeAffinity": "x"}})"),
            "spec.template.spec.affinity.nodeAffinity: must be an object");
  EXPECT_EQ(WhyNotInTemplate(R"({"containers": [{"name": 1}]})"),
            "spec.template.spec.containers[0].name: must be a string, not 1");
  EXPECT_EQ(
      WhyNotInTemplate(R"({"affinity": {"nodeAffinity": {
              "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}})"),
      "spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
      ".nodeSelectorTerms[0].matchExpressions: an empty term matches no node: remove it");
  EXPECT_EQ(WhyNot(R"({"template": []})"), "spec.template: must be an object");
  EXPECT_EQ(WhyNot(R"({"sharedMemory": "much"})"),
            "spec.sharedMemory: \"much\": use Auto, \"Off\" or a quantity such as 64Gi");
}

}  // namespace
}  // namespace asterism::operators
