#include "launch/progress_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "nlohmann/json.hpp"

namespace asterism::launch {
namespace {

constexpr off_t kReadMax = off_t{64} << 10;

double FiniteNumber(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) {
    return 0;
  }
  const auto value = found->get<double>();
  return std::isfinite(value) && value > 0 ? value : 0;
}

}  // namespace

std::optional<ProgressReading> ParseProgressLine(std::string_view line) {
  const nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return std::nullopt;
  }
  const auto step = object.find("step");
  if (step == object.end() || !step->is_number_integer() || step->get<int64_t>() < 0) {
    return std::nullopt;
  }
  return ProgressReading{.step = step->get<int64_t>(),
                         .step_time_milliseconds = FiniteNumber(object, "stepTimeMilliseconds"),
                         .tokens_per_second = FiniteNumber(object, "tokensPerSecond")};
}

bool ProgressFile::TakeLines(std::string_view text) {
  bool newer = false;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
      if (const auto reading = ParseProgressLine(line)) {
        newest_ = reading;
        problem_.clear();
        newer = true;
      } else {
        problem_ = path_ + ": a line is no JSON object with a \"step\" of 0 or more";
      }
    }
    if (end == std::string_view::npos) {
      break;
    }
    text.remove_prefix(end + 1);
  }
  return newer;
}

bool ProgressFile::Look() {
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) {
    if (errno != ENOENT) {
      problem_ = path_ + ": " + strerror(errno);
    }
    return false;
  }
  struct stat status {};
  bool newer = false;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    problem_ = path_ + ": is no regular file";
  } else {
    if (status.st_ino != inode_ || status.st_size < read_) {
      inode_ = status.st_ino;
      read_ = 0;
    }
    const off_t from = std::max(read_, status.st_size - kReadMax);
    std::string text(static_cast<size_t>(status.st_size - from), '\0');
    const ssize_t got = text.empty() ? 0 : pread(file, text.data(), text.size(), from);
    text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    // Up to the last line that is complete; and where we jumped, not the half of the first.
    const size_t end = text.rfind('\n');
    if (end != std::string::npos) {
      const size_t begin = from > read_ ? text.find('\n') + 1 : 0;
      newer = TakeLines(std::string_view(text).substr(begin, end + 1 - begin));
      read_ = from + static_cast<off_t>(end) + 1;
    }
  }
  close(file);
  return newer;
}

}  // namespace asterism::launch
