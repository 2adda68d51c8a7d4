// File: agent/pod_identity.h
//
// Which pod a process belongs to, by its control group: the kernel says it, not the process.
//
//   PodOfControlGroups("0::/kubepods/burstable/pod7d1f.../3f9a...\n")  -> {uid, container}
//
// Knows the names that kubelet gives, of both drivers (cgroupfs, systemd), both versions of control
// groups, below a root of its own (--cgroup-root), and as they are seen from inside another control
// group namespace ("/../../kubepods-pod....slice": the reader's own group is the root). A process
// can have made groups below its container's: the outermost that is a pod's counts, which only
// kubelet can have made. A user can have made groups below a session, a service or a scope that was
// handed to him: nothing below such a group counts.
//
// Thread-safety: pure. Cost: O(text).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace asterism::agent {

struct PodIdentity {
  std::string uid;        // as in metadata.uid, with dashes
  std::string container;  // the runtime's id; empty: not told

  bool operator==(const PodIdentity&) const = default;
};

// `text`: the content of /proc/PID/cgroup. Empty: no pod.
std::optional<PodIdentity> PodOfControlGroups(std::string_view text);

}  // namespace asterism::agent
