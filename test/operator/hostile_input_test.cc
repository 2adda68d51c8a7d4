// Objects made to hurt: whatever the strings hold, a pod is one valid JSON object whose own fields
// are ours, or there is an error with a field in it.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

#include "nlohmann/json.hpp"
#include "operator/launch_environment.h"
#include "operator/pod_builder.h"
#include "operator/queue.h"
#include "test/operator/job_texts.h"

namespace asterism::operators {
namespace {

using nlohmann::json;

rc::Gen<std::string> HostileText() {
  return rc::gen::oneOf(
      rc::gen::element<std::string>("@@0;", "@0;", "@@@@@@", "\"", "\\", "\"}]}", "$(rm -rf /)",
                                    "$(MASTER_ADDR)", "\n", "asterism-x", "\u00e4", "../..", ""),
      rc::gen::container<std::string>(rc::gen::inRange<char>(0, 127)));
}

TEST(HostileInput, TextsNeverLeaveTheirField) {
  EXPECT_TRUE(rc::check([] {
    const std::string text = *HostileText();
    json spec = {
        {"gpus", 16},
        {"queue", text},
        {"priorityClassName", text},
        {"container", {{"image", "i"}, {"command", {"torchrun", text}}, {"workingDir", text}}}};
    spec["container"]["env"] = json::array({{{"name", "X"}, {"value", text}}});
    spec["template"]["metadata"]["labels"]["x" + text] = text;
    const auto builder = BuilderOf(JobWith(spec));
    RC_ASSERT(builder.ok());
    const json pod = json::parse(
        builder->PodBody({.first_rank = 8, .node = "n" + text, .epoch = 1, .domain = text}),
        nullptr, false);
    RC_ASSERT(pod.is_object());
    RC_ASSERT(pod["metadata"]["name"] == "llama-3f2a9-r8-e1");
    RC_ASSERT(pod["metadata"]["labels"]["x" + text] == text);
    RC_ASSERT(pod["metadata"]["labels"]["asterism.dev/queue"] == text);
    const json& trainer = pod["spec"]["containers"][0];
    RC_ASSERT(trainer["command"][1] == text);
    RC_ASSERT(trainer["env"].back()["value"] == text);
    RC_ASSERT(trainer["resources"]["limits"]["nvidia.com/gpu"] == "8");
  }));
}

// Puts `value` at a random place of `object`.
void Disturb(json& object, const json& value, int depth) {
  if (depth == 0 || !object.is_structured() || object.empty()) {
    object = value;
    return;
  }
  auto place = object.begin();
  std::advance(place,
               *rc::gen::inRange<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(object.size())));
  Disturb(*place, value, depth - 1);
}

TEST(HostileInput, WrongTypesAnywhereAreErrorsAndNotCrashes) {
  const json full = json::parse(R"({
    "gpus": 16, "gpuProducts": ["a"], "sharedMemory": "1Gi", "framework": "DeepSpeed",
    "container": {"name": "trainer", "image": "i", "command": ["c"], "args": ["a"],
      "env": [{"name": "A", "value": "1"}],
      "resources": {"limits": {"nvidia.com/gpu": 8}, "requests": {"cpu": 1}, "claims": [{"name": "c"}]},
      "volumeMounts": [{"name": "v", "mountPath": "/v"}], "securityContext": {"a": {"b": 1}}},
    "volumes": [{"name": "v"}], "imagePullSecrets": [{"name": "s"}], "serviceAccountName": "sa",
    "placement": {"levels": [{"level": "node"}]},
    "failurePolicy": {"rules": [{"exitCodes": [1], "action": "FailJob"}]},
    "template": {"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["a/b"]},
      "spec": {"hostNetwork": true, "tolerations": [{"key": "a"}], "volumes": [{"name": "w"}],
        "dnsPolicy": "Default",
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
          {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a"}], "matchFields": [{"key": "b"}]}]}}},
        "initContainers": [{"name": "i", "env": [{"name": "B"}]}],
        "containers": [{"name": "trainer", "image": "o", "command": ["c"],
          "env": [{"name": "A", "value": "0"}], "resources": {"limits": {"cpu": 1}},
          "volumeMounts": [{"name": "w", "mountPath": "/w"}], "securityContext": {"a": {"c": 1}}}]}}})");
  ASSERT_EQ(WhyNoPods(full), "");
  EXPECT_TRUE(rc::check([&full] {
    json spec = full;
    const json value = *rc::gen::element<json>(
        nullptr, 0, -1, 1.5, true, "text", json::array(), json::object(), json::array({nullptr}),
        json::array({1}), json::array({json::object()}), 18446744073709551615ull);
    Disturb(spec, value, *rc::gen::inRange(1, 9));
    const auto job = ParseTrainingJob(JobText(spec));
    if (!job.ok()) {
      return;
    }
    const auto builder = BuilderOf(*job);
    CommandWarning(*job, {.pods = 2, .gpus_per_pod = 8, .processes_per_pod = 8});
    if (!builder.ok()) {
      RC_ASSERT(!builder.status().message().empty());
      return;
    }
    const json pod = json::parse(builder->PodBody({.node = "n"}), nullptr, false);
    RC_ASSERT(pod.is_object());
    RC_ASSERT(pod["spec"]["restartPolicy"] == "Never");
    RC_ASSERT(pod["spec"]["schedulerName"] == "asterism");
  }));
}

TEST(HostileInput, AHugeRunOfMarkCharactersIsHarmless) {
  const std::string marks(200000, '@');
  const json pod =
      FirstPod({{"gpus", 16}, {"container", {{"image", "i"}, {"command", {"torchrun", marks}}}}});
  EXPECT_EQ(pod["spec"]["containers"][0]["command"][1], marks);
  EXPECT_EQ(pod["metadata"]["name"], "llama-3f2a9-r0-e1");
}

}  // namespace
}  // namespace asterism::operators
