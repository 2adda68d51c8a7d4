// File: launch/process_tree.h
//
// The processes below one process, as /proc tells them.
//
//   for (const pid_t pid : ProcessesBelow("/proc", getpid())) kill(pid, SIGTERM);
//
// A snapshot: processes that start or end meanwhile may be missing.
//
// Thread-safety: pure but for /proc. Cost: reads one small file of each process of the machine, or
// of the container's PID namespace.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace asterism::launch {

// Fields of /proc/PID/stat. The name of a program may hold blanks and parentheses.
struct ProcessStat {
  char state = '?';
  pid_t parent = 0;
  uint64_t started = 0;          // clock ticks since boot: tells a reused PID from its former owner
  std::optional<int> exit_code;  // as of waitpid; shown to the owner only
};
std::optional<ProcessStat> ParseProcessStat(std::string_view text);

std::optional<ProcessStat> ReadProcessStat(const std::string& proc, pid_t pid);

// All but those that have ended.
std::map<pid_t, ProcessStat> LiveProcesses(const std::string& proc);

// `root` is not below itself.
bool IsBelow(const std::map<pid_t, ProcessStat>& processes, pid_t pid, pid_t root);

std::vector<pid_t> ProcessesBelow(const std::string& proc, pid_t root);

// Up to about `max` bytes; empty: there is no such file, or it cannot be read.
std::optional<std::string> ReadProcFile(const std::string& path, size_t max);

}  // namespace asterism::launch
