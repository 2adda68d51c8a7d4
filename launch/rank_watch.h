// File: launch/rank_watch.h
//
// Finds the processes of the job's ranks below the launcher, and tells how each of them ended,
// even where another process (torchrun, orted) is their parent and takes their exit status.
//
//   RankWatch watch("/proc", getpid(), {.first = 8, .count = 2});
//   watch.Scan();                       // now and then
//   poll(watch.descriptors()) ...       // a pidfd is readable when its process has ended
//   if (auto end = watch.TakeEnd(fd)) ...
//
// A rank's process is the topmost one whose environment names the rank: RANK (torchrun and all that
// follow it), OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK. What it starts itself (data loaders)
// inherits the variable and is not the rank.
//
// A process that lived and died between two scans is not seen.
//
// Thread-safety: none. Cost: a scan reads two small files of each process below the launcher.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

class RankWatch {
 public:
  RankWatch(std::string proc, pid_t root, RankRange ranks);
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  // Adds processes that are new.
  void Scan();
  // pidfds to wait for.
  std::vector<int> descriptors() const;
  // After its descriptor became readable; closes it. Empty: not one of ours.
  std::optional<RankEnd> TakeEnd(int descriptor);
  // A process that the launcher itself has waited for: its status is known for certain.
  void NoteReaped(pid_t pid, int wait_status);

  size_t watched() const { return by_descriptor_.size(); }

 private:
  struct Watched {
    int64_t rank = 0;
    pid_t pid = 0;
  };

  const std::string proc_;
  const pid_t root_;
  const RankRange ranks_;
  std::map<int, Watched> by_descriptor_;
  std::map<pid_t, int> reaped_;  // of watched ones, until TakeEnd
};

// The rank that an environment ("NAME=value\0NAME=value\0") names; empty: none.
std::optional<int64_t> RankOfEnvironment(std::string_view environment);

// Fields of /proc/PID/stat. The name of a program may hold blanks and parentheses.
struct ProcessStat {
  char state = '?';
  pid_t parent = 0;
  std::optional<int> exit_code;  // as of waitpid; shown to the owner only
};
std::optional<ProcessStat> ParseProcessStat(std::string_view text);

}  // namespace asterism::launch
