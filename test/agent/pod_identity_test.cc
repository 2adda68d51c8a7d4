#include "agent/pod_identity.h"

#include "gtest/gtest.h"

namespace asterism::agent {
namespace {

constexpr char kUid[] = "7d1f2c3a-0b1c-4d5e-8f90-a1b2c3d4e5f6";
const std::string kId(64, 'a');

TEST(PodOfControlGroups, KnowsEveryWayOfWriting) {
  const PodIdentity expected{.uid = kUid, .container = kId};
  for (const std::string& text : {
           // cgroupfs, version 2 and 1; a root of its own.
           "0::/kubepods/burstable/pod" + std::string(kUid) + "/" + kId + "\n",
           "12:memory:/kubepods/pod" + std::string(kUid) + "/" + kId + "\n11:cpu:/x\n",
           "5:devices:/node-a/kubepods/besteffort/pod" + std::string(kUid) + "/" + kId,
           // systemd.
           "0::/kubepods.slice/kubepods-burstable.slice/"
           "kubepods-burstable-pod7d1f2c3a_0b1c_4d5e_8f90_a1b2c3d4e5f6.slice/"
           "cri-containerd-" +
               kId + ".scope\n",
           "0::/kubepods.slice/kubepods-pod7d1f2c3a_0b1c_4d5e_8f90_a1b2c3d4e5f6.slice/crio-" + kId +
               ".scope/deeper/still\n",
           // systemd with --cgroup-root=/kubelet.
           "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
           "kubelet-kubepods-burstable-pod7d1f2c3a_0b1c_4d5e_8f90_a1b2c3d4e5f6.slice/"
           "cri-containerd-" +
               kId + ".scope\n",
           // Seen from inside another pod's control group namespace: of the same class, of another
           // one, and with cgroupfs.
           "0::/../../kubepods-besteffort-pod7d1f2c3a_0b1c_4d5e_8f90_a1b2c3d4e5f6.slice/"
           "cri-containerd-" +
               kId + ".scope\n",
           "0::/../../../kubepods-burstable.slice/"
           "kubepods-burstable-pod7d1f2c3a_0b1c_4d5e_8f90_a1b2c3d4e5f6.slice/cri-containerd-" +
               kId + ".scope\n",
           "0::/../../pod" + std::string(kUid) + "/" + kId + "\n",
           "0::/../../../burstable/pod" + std::string(kUid) + "/" + kId + "\n",
           // What the process made below its container's group.
           "0::/kubepods/pod" + std::string(kUid) + "/" + kId +
               "/kubepods/pod00000000-0000-0000-0000-000000000000/x\n",
       }) {
    const auto pod = PodOfControlGroups(text);
    ASSERT_TRUE(pod) << text;
    EXPECT_EQ(*pod, expected) << text;
  }
}

TEST(PodOfControlGroups, KnowsStaticPodsAndPodsWithoutContainer) {
  const std::string hash(32, 'b');
  EXPECT_EQ(PodOfControlGroups("0::/kubepods/pod" + hash + "/" + kId)->uid, hash);
  EXPECT_EQ(*PodOfControlGroups("0::/kubepods/pod" + std::string(kUid)),
            (PodIdentity{.uid = kUid}));
}

TEST(PodOfControlGroups, TakesNothingElseForAPod) {
  for (const std::string& text : {
           std::string(),
           std::string("\n\n"),
           std::string("0::/"),
           std::string("nonsense"),
           std::string("0::/user.slice/user-0.slice/session-1.scope"),
           // Not below kubelet's own group: anybody may make such a name.
           "0::/user.slice/pod" + std::string(kUid) + "/" + kId,
           "0::/user.slice/user-7.slice/user@7.service/kubepods/pod" + std::string(kUid) + "/" +
               kId,
           "0::/user.slice/user-7.slice/user@7.service/kubepods.slice/"
           "kubepods-pod7d1f2c3a_0b1c_4d5e_8f90_a1b2c3d4e5f6.slice/crio-" +
               kId + ".scope",
           "0::/../../../../user.slice/user@7.service/kubepods/pod" + std::string(kUid) + "/" + kId,
           "0::/system.slice/slurmstepd.scope/job_7/kubepods/pod" + std::string(kUid) + "/" + kId,
           "0::/kubepods/elsewhere/pod" + std::string(kUid) + "/" + kId,
           std::string("0::/kubepods/podnot-a-uid/x"),
           std::string("0::/kubepods/pod7D1F2C3A-0b1c-4d5e-8f90-a1b2c3d4e5f6/x"),
           std::string("0::/system.slice/containerd.service"),
       }) {
    EXPECT_FALSE(PodOfControlGroups(text)) << text;
  }
}

}  // namespace
}  // namespace asterism::agent
