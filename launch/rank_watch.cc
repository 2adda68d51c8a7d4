#include "launch/rank_watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace asterism::launch {
namespace {

// An environment may be megabytes; the rank is set by whoever started the process, in front or at
// the end, so all of it counts up to a bound.
constexpr size_t kEnvironmentMax = size_t{1} << 20;
constexpr size_t kStatMax = 4096;

// linux/pidfd.h of Linux 6.15; older headers lack it.
struct PidfdInfo {
  uint64_t mask = 0;
  uint64_t cgroupid = 0;
  uint32_t pid = 0;
  uint32_t tgid = 0;
  uint32_t ppid = 0;
  uint32_t ruid = 0;
  uint32_t rgid = 0;
  uint32_t euid = 0;
  uint32_t egid = 0;
  uint32_t suid = 0;
  uint32_t sgid = 0;
  uint32_t fsuid = 0;
  uint32_t fsgid = 0;
  int32_t exit_code = 0;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr uint64_t kPidfdInfoExit = uint64_t{1} << 3;
constexpr unsigned long kPidfdGetInfo = _IOWR(0xFF, 11, PidfdInfo);

std::optional<std::string> ReadProcFile(const std::string& path, size_t max) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    return std::nullopt;
  }
  std::string text;
  std::array<char, 4096> buffer{};
  while (text.size() < max) {
    const ssize_t got = read(file, buffer.data(), buffer.size());
    if (got <= 0) {
      break;
    }
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  close(file);
  return text;
}

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
}

std::vector<pid_t> ListProcesses(const std::string& proc) {
  std::vector<pid_t> pids;
  DIR* folder = opendir(proc.c_str());
  if (folder == nullptr) {
    return pids;
  }
  while (const dirent* entry = readdir(folder)) {
    if (const auto pid = ParseNumber<pid_t>(entry->d_name)) {
      pids.push_back(*pid);
    }
  }
  closedir(folder);
  return pids;
}

struct Process {
  pid_t parent = 0;
  std::optional<int64_t> rank;
};

bool IsBelow(const std::map<pid_t, Process>& processes, pid_t pid, pid_t root) {
  // A process may have changed its parent between two reads: a bound instead of a proof.
  for (int depth = 0; depth < 4096; ++depth) {
    const auto found = processes.find(pid);
    if (found == processes.end()) {
      return false;
    }
    if (found->second.parent == root) {
      return true;
    }
    pid = found->second.parent;
  }
  return false;
}

std::optional<int> StatusFromPidfd(int descriptor) {
  PidfdInfo info;
  info.mask = kPidfdInfoExit;
  if (ioctl(descriptor, kPidfdGetInfo, &info) == 0 && (info.mask & kPidfdInfoExit) != 0) {
    return info.exit_code;
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> RankOfEnvironment(std::string_view environment) {
  constexpr std::array<std::string_view, 4> kNames = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                                      "PMI_RANK"};
  while (!environment.empty()) {
    const size_t end = std::min(environment.find('\0'), environment.size());
    const std::string_view variable = environment.substr(0, end);
    const size_t equals = variable.find('=');
    if (equals != std::string_view::npos &&
        std::ranges::find(kNames, variable.substr(0, equals)) != kNames.end()) {
      return ParseNumber<int64_t>(variable.substr(equals + 1));
    }
    environment.remove_prefix(std::min(end + 1, environment.size()));
  }
  return std::nullopt;
}

std::optional<ProcessStat> ParseProcessStat(std::string_view text) {
  const size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view rest = text.substr(name_end + 1);
  ProcessStat stat;
  // State is field 3, the parent 4, the exit code 52.
  for (int field = 3; field <= 52; ++field) {
    const size_t begin = rest.find_first_not_of(" \n");
    if (begin == std::string_view::npos) {
      break;
    }
    rest.remove_prefix(begin);
    const std::string_view word = rest.substr(0, rest.find_first_of(" \n"));
    rest.remove_prefix(word.size());
    if (field == 3) {
      stat.state = word[0];
    } else if (field == 4) {
      const auto parent = ParseNumber<pid_t>(word);
      if (!parent) {
        return std::nullopt;
      }
      stat.parent = *parent;
    } else if (field == 52) {
      stat.exit_code = ParseNumber<int>(word);
    }
  }
  return stat.parent == 0 && stat.state == '?' ? std::nullopt : std::optional(stat);
}

RankWatch::RankWatch(std::string proc, pid_t root, RankRange ranks)
    : proc_(std::move(proc)), root_(root), ranks_(ranks) {}

RankWatch::~RankWatch() {
  for (const auto& [descriptor, watched] : by_descriptor_) {
    close(descriptor);
  }
}

void RankWatch::Scan() {
  std::map<pid_t, Process> processes;
  for (const pid_t pid : ListProcesses(proc_)) {
    const auto text = ReadProcFile(proc_ + "/" + std::to_string(pid) + "/stat", kStatMax);
    const auto stat = text ? ParseProcessStat(*text) : std::nullopt;
    if (stat && stat->state != 'Z' && stat->state != 'X') {
      processes[pid].parent = stat->parent;
    }
  }
  for (auto& [pid, process] : processes) {
    if (pid != root_ && IsBelow(processes, pid, root_)) {
      const auto text =
          ReadProcFile(proc_ + "/" + std::to_string(pid) + "/environ", kEnvironmentMax);
      process.rank = text ? RankOfEnvironment(*text) : std::nullopt;
    }
  }
  for (const auto& [pid, process] : processes) {
    if (!process.rank || *process.rank < ranks_.first ||
        *process.rank >= ranks_.first + ranks_.count) {
      continue;
    }
    const auto parent = processes.find(process.parent);
    const bool inherited = parent != processes.end() && parent->second.rank == process.rank;
    const bool known = std::ranges::any_of(
        by_descriptor_, [pid = pid](const auto& entry) { return entry.second.pid == pid; });
    if (inherited || known) {
      continue;
    }
    const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (descriptor >= 0) {
      by_descriptor_[descriptor] = {.rank = *process.rank, .pid = pid};
    }
  }
}

std::vector<int> RankWatch::descriptors() const {
  std::vector<int> all;
  all.reserve(by_descriptor_.size());
  for (const auto& [descriptor, watched] : by_descriptor_) {
    all.push_back(descriptor);
  }
  return all;
}

std::optional<RankEnd> RankWatch::TakeEnd(int descriptor) {
  const auto found = by_descriptor_.find(descriptor);
  if (found == by_descriptor_.end()) {
    return std::nullopt;
  }
  RankEnd end{.rank = found->second.rank, .pid = found->second.pid};
  if (const auto reaped = reaped_.find(end.pid); reaped != reaped_.end()) {
    end.wait_status = reaped->second;
    reaped_.erase(reaped);
  } else {
    // While nobody has waited for it, its status stands in /proc; afterwards the kernel keeps it
    // with the descriptor (Linux 6.15).
    const auto text = ReadProcFile(proc_ + "/" + std::to_string(end.pid) + "/stat", kStatMax);
    const auto stat = text ? ParseProcessStat(*text) : std::nullopt;
    end.wait_status = stat && stat->state == 'Z' ? stat->exit_code : StatusFromPidfd(descriptor);
  }
  close(descriptor);
  by_descriptor_.erase(found);
  return end;
}

void RankWatch::NoteReaped(pid_t pid, int wait_status) {
  const bool watched = std::ranges::any_of(
      by_descriptor_, [pid](const auto& entry) { return entry.second.pid == pid; });
  if (watched) {
    reaped_[pid] = wait_status;
  }
}

}  // namespace asterism::launch
