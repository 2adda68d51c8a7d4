// File: launch/rank_watch.h
//
// Finds the processes of the job's ranks below the launcher, and tells how each of them ended,
// even where another process (torchrun, orted) is their parent and takes their exit status.
//
//   auto found = FindRankProcesses("/proc", getpid(), {.first = 8, .count = 2});   // now and then
//   RankWatch watch("/proc");
//   watch.Add(found);
//   poll(watch.descriptors()) ...       // a pidfd is readable when its process has ended
//   if (auto end = watch.TakeEnd(fd)) ...
//
// A rank's process is the topmost one whose environment names the rank: RANK (torchrun and all that
// follow it), OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK. What it starts itself (data loaders)
// inherits the variable and is not the rank.
//
// To look for them can take for ever: an environment lies in the memory of its process, which one
// that is stuck in its file system may hold locked. So that is for a SideProcess; the watch itself
// never waits.
//
// A process that lived and died between two searches is not seen.
//
// Thread-safety: none. Cost: a search reads two small files of each process below the launcher.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/process_tree.h"

namespace asterism::launch {

struct RankRange {
  int64_t first = 0;
  int64_t count = 0;
};

struct RankEnd {
  int64_t rank = 0;
  pid_t pid = 0;
  // As of waitpid; empty: the kernel does not tell us any more.
  std::optional<int> wait_status;
};

struct RankProcess {
  pid_t pid = 0;
  uint64_t started = 0;  // as of ProcessStat
  int64_t rank = 0;

  bool operator==(const RankProcess&) const = default;
};

std::vector<RankProcess> FindRankProcesses(const std::string& proc, pid_t root, RankRange ranks);

// One a line, for a SideProcess to say. Lines that are none are left out.
std::string FormatRankProcesses(const std::vector<RankProcess>& processes);
std::vector<RankProcess> ParseRankProcesses(std::string_view text);

class RankWatch {
 public:
  explicit RankWatch(std::string proc) : proc_(std::move(proc)) {}
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  // Adds processes that are new, and still there.
  void Add(const std::vector<RankProcess>& found);
  // pidfds to wait for.
  std::vector<int> descriptors() const;
  // After its descriptor became readable; closes it. Empty: not one of ours.
  std::optional<RankEnd> TakeEnd(int descriptor);
  // A process that the launcher itself has waited for: its status is known for certain.
  void NoteReaped(pid_t pid, int wait_status);

  size_t watched() const { return by_descriptor_.size(); }

 private:
  const std::string proc_;
  std::map<int, RankProcess> by_descriptor_;
  std::map<pid_t, int> reaped_;  // of watched ones, until TakeEnd
};

// The rank that an environment ("NAME=value\0NAME=value\0") names; empty: none.
std::optional<int64_t> RankOfEnvironment(std::string_view environment);

}  // namespace asterism::launch
