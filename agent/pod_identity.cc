#include "agent/pod_identity.h"

#include <algorithm>

namespace asterism::agent {
namespace {

constexpr size_t kUidSize = 36;
// Static pods have a hash for a UID.
constexpr size_t kHashSize = 32;
constexpr size_t kContainerIdSize = 64;

bool IsHex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

// "7d1f2c3a-0b1c-4d5e-8f90-a1b2c3d4e5f6", or with '_' where systemd's names have no dash.
std::optional<std::string> UidOf(std::string_view text) {
  if (text.size() == kHashSize && std::ranges::all_of(text, IsHex)) {
    return std::string(text);
  }
  if (text.size() != kUidSize) {
    return std::nullopt;
  }
  std::string uid(text);
  for (size_t i = 0; i < uid.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? uid[i] != '-' && uid[i] != '_' : !IsHex(uid[i])) {
      return std::nullopt;
    }
    uid[i] = dash ? '-' : uid[i];
  }
  return uid;
}

// The name of a pod's group: "pod<uid>", "kubepods-burstable-pod<uid>.slice"; with --cgroup-root=/x
// "x-kubepods-...".
std::optional<std::string> UidOfGroup(std::string_view name) {
  constexpr std::string_view kSlice = ".slice";
  if (name.ends_with(kSlice)) {
    name.remove_suffix(kSlice.size());
    const size_t pod = name.rfind("-pod");
    if (pod == std::string_view::npos || name.substr(0, pod).find("kubepods") == name.npos) {
      return std::nullopt;
    }
    return UidOf(name.substr(pod + 4));
  }
  return name.starts_with("pod") ? UidOf(name.substr(3)) : std::nullopt;
}

// Kubelet's own root of pods.
bool IsRootOfPods(std::string_view name) {
  return name == "kubepods" || name.ends_with("kubepods.slice");
}

// Between the root and the pods.
bool IsServiceClass(std::string_view name) {
  return name == "burstable" || name == "besteffort" ||
         name.ends_with("kubepods-burstable.slice") || name.ends_with("kubepods-besteffort.slice");
}

// Its owner, who need not be root, may make groups below it: a session, a service, a user.
bool IsHandedOver(std::string_view name) {
  return name.ends_with(".scope") || name.ends_with(".service") || name == "user.slice";
}

// "<id>", "cri-containerd-<id>.scope", "crio-<id>.scope".
std::string ContainerOfGroup(std::string_view name) {
  constexpr std::string_view kScope = ".scope";
  if (name.ends_with(kScope)) {
    name.remove_suffix(kScope.size());
    name.remove_prefix(name.rfind('-') == std::string_view::npos ? 0 : name.rfind('-') + 1);
  }
  const bool id = name.size() == kContainerIdSize && std::ranges::all_of(name, IsHex);
  return id ? std::string(name) : std::string();
}

// Takes the first name of the path away.
std::string_view TakeName(std::string_view& path) {
  const std::string_view name = path.substr(0, path.find('/'));
  path.remove_prefix(std::min(name.size() + 1, path.size()));
  return name;
}

std::optional<PodIdentity> PodOfPath(std::string_view path) {
  // Seen from inside a pod's control group namespace, the path climbs to what both have in common,
  // which lies below the root of pods for another pod.
  bool below_root = false;
  path.remove_prefix(path.starts_with('/') ? 1 : 0);
  while (path.starts_with("../")) {
    below_root = true;
    path.remove_prefix(3);
  }
  while (!path.empty()) {
    const std::string_view name = TakeName(path);
    if (std::optional<std::string> uid = below_root ? UidOfGroup(name) : std::nullopt) {
      return PodIdentity{.uid = *std::move(uid), .container = ContainerOfGroup(TakeName(path))};
    }
    if (IsHandedOver(name)) {
      return std::nullopt;
    }
    below_root = IsRootOfPods(name) || (below_root && IsServiceClass(name));
  }
  return std::nullopt;
}

}  // namespace

std::optional<PodIdentity> PodOfControlGroups(std::string_view text) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    // "hierarchy:controllers:path"
    for (int colon = 0; colon < 2; ++colon) {
      const size_t at = line.find(':');
      line.remove_prefix(at == std::string_view::npos ? line.size() : at + 1);
    }
    if (auto pod = PodOfPath(line)) {
      return pod;
    }
  }
  return std::nullopt;
}

}  // namespace asterism::agent
