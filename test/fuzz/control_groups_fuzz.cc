// Reads any text as the content of /proc/PID/cgroup: a pod that it names has a UID, and a line that
// another process could add below its own group changes nothing.

#include <cstddef>
#include <cstdint>
#include <string>

#include "agent/pod_identity.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace asterism::agent;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto pod = PodOfControlGroups(text);
  if (pod) {
    CHECK_THAT(pod->uid.size() == 36 || pod->uid.size() == 32, "a UID of another length");
    CHECK_THAT(pod->container.empty() || pod->container.size() == 64, "no id of a container");
    const auto deeper = PodOfControlGroups(text.substr(0, text.find('\n')) +
                                           "/kubepods/pod00000000-0000-0000-0000-000000000000");
    CHECK_THAT(!deeper || deeper->uid == pod->uid || text.find('\n') != std::string::npos,
               "a group below the container's is taken for the pod");
  }
  return 0;
}
