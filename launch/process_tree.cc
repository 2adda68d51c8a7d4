#include "launch/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>

namespace asterism::launch {
namespace {

constexpr size_t kStatMax = 4096;

template <typename Number>
std::optional<Number> NumberOf(std::string_view text) {
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
    if (const auto pid = NumberOf<pid_t>(entry->d_name)) {
      pids.push_back(*pid);
    }
  }
  closedir(folder);
  return pids;
}

}  // namespace

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

std::optional<ProcessStat> ParseProcessStat(std::string_view text) {
  const size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view rest = text.substr(name_end + 1);
  ProcessStat stat;
  // State is field 3, the parent 4, the start 22, the exit code 52.
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
      const auto parent = NumberOf<pid_t>(word);
      if (!parent) {
        return std::nullopt;
      }
      stat.parent = *parent;
    } else if (field == 22) {
      stat.started = NumberOf<uint64_t>(word).value_or(0);
    } else if (field == 52) {
      stat.exit_code = NumberOf<int>(word);
    }
  }
  return stat.parent == 0 && stat.state == '?' ? std::nullopt : std::optional(stat);
}

std::optional<ProcessStat> ReadProcessStat(const std::string& proc, pid_t pid) {
  const auto text = ReadProcFile(proc + "/" + std::to_string(pid) + "/stat", kStatMax);
  return text ? ParseProcessStat(*text) : std::nullopt;
}

std::map<pid_t, ProcessStat> LiveProcesses(const std::string& proc) {
  std::map<pid_t, ProcessStat> processes;
  for (const pid_t pid : ListProcesses(proc)) {
    const auto stat = ReadProcessStat(proc, pid);
    if (stat && stat->state != 'Z' && stat->state != 'X') {
      processes[pid] = *stat;
    }
  }
  return processes;
}

bool IsBelow(const std::map<pid_t, ProcessStat>& processes, pid_t pid, pid_t root) {
  if (pid == root) {
    return false;
  }
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

std::vector<pid_t> ProcessesBelow(const std::string& proc, pid_t root) {
  const std::map<pid_t, ProcessStat> processes = LiveProcesses(proc);
  std::vector<pid_t> below;
  for (const auto& [pid, stat] : processes) {
    if (IsBelow(processes, pid, root)) {
      below.push_back(pid);
    }
  }
  return below;
}

}  // namespace asterism::launch
