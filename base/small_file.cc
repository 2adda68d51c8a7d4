#include "base/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "fmt/format.h"

namespace asterism::base {

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  return ReadFile(path, kSmallFileMax);
}

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t bytes_max) {
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) {
    return absl::ErrnoToStatus(errno, fmt::format("cannot read {}", path));
  }
  const auto close_it = absl::MakeCleanup([file] { close(file); });
  struct stat facts = {};
  if (fstat(file, &facts) != 0) {
    return absl::ErrnoToStatus(errno, fmt::format("cannot read {}", path));
  }
  if (!S_ISREG(facts.st_mode)) {
    return absl::InvalidArgumentError(fmt::format("{} is not a regular file", path));
  }
  std::string text;
  char buffer[16384];
  while (true) {
    const ssize_t count = read(file, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return absl::ErrnoToStatus(errno, fmt::format("cannot read {}", path));
    }
    if (count == 0) {
      return text;
    }
    text.append(buffer, static_cast<size_t>(count));
    if (text.size() > bytes_max) {
      return absl::InvalidArgumentError(
          fmt::format("{} is larger than {} MiB", path, bytes_max >> 20));
    }
  }
}

}  // namespace asterism::base
