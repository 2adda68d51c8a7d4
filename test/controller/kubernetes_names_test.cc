#include "controller/kubernetes_names.h"

#include <string>

#include "gtest/gtest.h"

namespace asterism::controller {
namespace {

TEST(KubernetesNames, DnsSubdomains) {
  for (const char* good : {"a", "asterism", "my-scheduler.example.com", "0", "a-b.c-d"}) {
    EXPECT_TRUE(IsDnsSubdomain(good)) << good;
  }
  for (const char* bad : {"", "A", "-a", "a-", "a..b", ".a", "a.", "a_b", "a b", "ä"}) {
    EXPECT_FALSE(IsDnsSubdomain(bad)) << bad;
  }
  EXPECT_TRUE(IsDnsSubdomain(std::string(63, 'a')));
  EXPECT_FALSE(IsDnsSubdomain(std::string(64, 'a')));
  std::string long_name = "a";
  while (long_name.size() < 253) {
    long_name += ".a";
  }
  EXPECT_TRUE(IsDnsSubdomain(long_name));
  EXPECT_FALSE(IsDnsSubdomain(long_name + ".a"));
}

TEST(KubernetesNames, LabelKeys) {
  for (const char* good : {"pool", "Pool_1.x", "asterism.dev/declared-supernode", "a/b"}) {
    EXPECT_TRUE(IsLabelKey(good)) << good;
  }
  for (const char* bad : {"", "/", "a/", "/a", "a/b/c", "-a", "a-", "A.dev/x", "a b"}) {
    EXPECT_FALSE(IsLabelKey(bad)) << bad;
  }
  EXPECT_FALSE(IsLabelKey(std::string(64, 'a')));
}

TEST(KubernetesNames, LabelValues) {
  EXPECT_TRUE(IsLabelValue(""));
  EXPECT_TRUE(IsLabelValue("NVIDIA-H100.80GB_x"));
  EXPECT_FALSE(IsLabelValue("-x"));
  EXPECT_FALSE(IsLabelValue("a/b"));
}

TEST(KubernetesNames, ExtendedResources) {
  for (const char* good : {"nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.5gb"}) {
    EXPECT_TRUE(IsExtendedResource(good)) << good;
  }
  for (const char* bad : {"cpu", "memory", "kubernetes.io/batch-cpu", "x.kubernetes.io/y",
                          "nvidia.com/", "requests.nvidia.com/gpu"}) {
    EXPECT_FALSE(IsExtendedResource(bad)) << bad;
  }
}

}  // namespace
}  // namespace asterism::controller
