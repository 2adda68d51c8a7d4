#include "operator/direct_commit.h"

#include <gtest/gtest.h>

#include <string>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"

namespace asterism::operators {
namespace {

using ::testing::HasSubstr;

std::string Why(const char* pod_spec) {
  return WhyNotDirect(nlohmann::json::parse(pod_spec));
}

TEST(WhyNotDirectTest, PlainPodsNeedNoScheduler) {
  EXPECT_EQ(Why("{}"), "");
  EXPECT_EQ(Why(R"({"nodeSelector": {"pool": "a"}, "tolerations": [{"operator": "Exists"}],
                    "volumes": [{"name": "a", "emptyDir": {}}, {"configMap": {"name": "c"}}],
                    "resourceClaims": [], "topologySpreadConstraints": [],
                    "containers": [{"ports": [{"containerPort": 80}]}]})"),
            "");
  EXPECT_EQ(Why(R"({"affinity": {"nodeAffinity":
                    {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
                      [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]}},
                    "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}})"),
            "");
}

TEST(WhyNotDirectTest, NamesWhatOnlyKubeSchedulerCanDo) {
  EXPECT_THAT(Why(R"({"resourceClaims": [{"name": "gpu"}]})"), HasSubstr("resourceClaims"));
  EXPECT_THAT(Why(R"({"volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]})"),
              HasSubstr("volumes with a claim"));
  EXPECT_THAT(Why(R"({"volumes": [{"ephemeral": {}}]})"), HasSubstr("volumes with a claim"));
  EXPECT_THAT(Why(R"({"topologySpreadConstraints": [{}]})"),
              HasSubstr("topologySpreadConstraints"));
  EXPECT_THAT(Why(R"({"affinity": {"podAntiAffinity":
                      {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}})"),
              HasSubstr("affinity.podAntiAffinity"));
  EXPECT_THAT(Why(R"({"affinity": {"podAffinity":
                      {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}})"),
              HasSubstr("affinity.podAffinity"));
  EXPECT_THAT(Why(R"({"nodeSelector": {"kubernetes.io/hostname": "a"}})"), HasSubstr("by name"));
  EXPECT_THAT(Why(R"({"affinity": {"nodeAffinity":
                      {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
                        [{"matchExpressions": [{"key": "kubernetes.io/hostname"}]}]}}}})"),
              HasSubstr("by name"));
  EXPECT_THAT(Why(R"({"affinity": {"nodeAffinity":
                      {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
                        [{"matchFields": [{"key": "metadata.name", "operator": "NotIn"}]}]}}}})"),
              HasSubstr("by name"));
  EXPECT_THAT(Why(R"({"containers": [{}, {"ports": [{"hostPort": 80}]}]})"), HasSubstr("hostPort"));
  EXPECT_THAT(Why(R"({"initContainers": [{"ports": [{"hostPort": 80}]}]})"), HasSubstr("hostPort"));
  // The API server gives each of them a hostPort.
  EXPECT_THAT(Why(R"({"hostNetwork": true, "containers": [{"ports": [{"containerPort": 80}]}]})"),
              HasSubstr("host network"));
  EXPECT_EQ(Why(R"({"hostNetwork": true, "containers": [{}]})"), "");
  EXPECT_THAT(Why(R"({"runtimeClassName": "kata"})"), HasSubstr("runtimeClassName"));
}

TEST(WhyNotDirectTest, WrongTypesDoNoHarm) {
  EXPECT_EQ(Why(R"({"volumes": {}, "affinity": 3, "containers": [7], "nodeSelector": []})"), "");
  EXPECT_EQ(Why("[]"), "");
}

}  // namespace
}  // namespace asterism::operators
