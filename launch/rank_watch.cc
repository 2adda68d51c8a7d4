#include "launch/rank_watch.h"

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

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
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

std::vector<RankProcess> FindRankProcesses(const std::string& proc, pid_t root, RankRange ranks) {
  const std::map<pid_t, ProcessStat> processes = LiveProcesses(proc);
  std::map<pid_t, int64_t> rank_of;
  for (const auto& [pid, stat] : processes) {
    if (IsBelow(processes, pid, root)) {
      const auto text =
          ReadProcFile(proc + "/" + std::to_string(pid) + "/environ", kEnvironmentMax);
      if (const auto rank = text ? RankOfEnvironment(*text) : std::nullopt) {
        rank_of[pid] = *rank;
      }
    }
  }
  std::vector<RankProcess> found;
  for (const auto& [pid, rank] : rank_of) {
    const ProcessStat& stat = processes.at(pid);
    const auto parent = rank_of.find(stat.parent);
    const bool inherited = parent != rank_of.end() && parent->second == rank;
    if (!inherited && rank >= ranks.first && rank - ranks.first < ranks.count) {
      found.push_back({.pid = pid, .started = stat.started, .rank = rank});
    }
  }
  return found;
}

std::string FormatRankProcesses(const std::vector<RankProcess>& processes) {
  std::string text;
  for (const RankProcess& process : processes) {
    text += std::to_string(process.pid) + " " + std::to_string(process.started) + " " +
            std::to_string(process.rank) + "\n";
  }
  return text;
}

std::vector<RankProcess> ParseRankProcesses(std::string_view text) {
  std::vector<RankProcess> processes;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t first = line.find(' ');
    const size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
    if (second == std::string_view::npos) {
      continue;
    }
    const auto pid = ParseNumber<pid_t>(line.substr(0, first));
    const auto started = ParseNumber<uint64_t>(line.substr(first + 1, second - first - 1));
    const auto rank = ParseNumber<int64_t>(line.substr(second + 1));
    if (pid && started && rank) {
      processes.push_back({.pid = *pid, .started = *started, .rank = *rank});
    }
  }
  return processes;
}

RankWatch::~RankWatch() {
  for (const auto& [descriptor, watched] : by_descriptor_) {
    close(descriptor);
  }
}

void RankWatch::Add(const std::vector<RankProcess>& found) {
  for (const RankProcess& process : found) {
    const bool known = std::ranges::any_of(
        by_descriptor_, [&](const auto& entry) { return entry.second.pid == process.pid; });
    if (known) {
      continue;
    }
    const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0));
    if (descriptor < 0) {
      continue;
    }
    // The descriptor holds a process; only now is it certain which.
    const auto stat = ReadProcessStat(proc_, process.pid);
    if (stat && stat->started == process.started) {
      by_descriptor_[descriptor] = process;
    } else {
      close(descriptor);
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
    const auto stat = ReadProcessStat(proc_, end.pid);
    const bool is_it = stat && stat->state == 'Z' && stat->started == found->second.started;
    end.wait_status = is_it ? stat->exit_code : StatusFromPidfd(descriptor);
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
