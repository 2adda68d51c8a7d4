// File: operator/launcher.h
//
// Puts the training container under asterism-launch: an init container copies the program into a
// volume of the pod, and the command starts with it. The init container passes the PodSecurity
// profile "restricted". Private to operator/.
//
//   AddLauncher({.image = "registry.example/asterism-launch:0.1.0"}, facts, spec, trainer);
//   AddPort(trainer);   // on a node whose agent offers it
//
// Thread-safety: pure. Cost: some copies of JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "nlohmann/json_fwd.hpp"

namespace asterism::operators {

// The way to the agent of the node, given by its device plug-in.
inline constexpr std::string_view kPortResource = "asterism.dev/port";
inline constexpr std::string_view kJobKeyName = "key";  // in the Secret of an MPI job
inline constexpr size_t kJobKeyBytes = 32;

struct LauncherFacts {
  std::string progress_path;  // spec.progress.file; empty: none
  // MPI: the Secret with the job's key; empty: no remote shell.
  std::string key_secret;
  int64_t remote_port = 0;
  bool worker = false;  // waits for commands of rank 0 instead of running the job's
};

void AddLauncher(std::string_view image, const LauncherFacts& facts, nlohmann::json& pod_spec,
                 nlohmann::json& trainer);

void AddPort(nlohmann::json& trainer);

}  // namespace asterism::operators
