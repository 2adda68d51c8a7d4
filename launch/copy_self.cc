#include "launch/copy_self.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>

namespace asterism::launch {
namespace {

absl::Status SystemError(const std::string& what) {
  return absl::InternalError(what + ": " + strerror(errno));
}

bool CopyBytes(int from, int to) {
  std::array<char, size_t{64} << 10> buffer{};
  ssize_t got = 0;
  while ((got = read(from, buffer.data(), buffer.size())) > 0) {
    for (ssize_t done = 0; done < got;) {
      const ssize_t written = write(to, buffer.data() + done, static_cast<size_t>(got - done));
      if (written < 0) {
        return false;
      }
      done += written;
    }
  }
  return got == 0;
}

}  // namespace

absl::Status CopySelfInto(const std::string& folder) {
  const int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (from < 0) {
    return SystemError("/proc/self/exe");
  }
  const std::string path = folder + "/" + kProgramName;
  const std::string unfinished = path + ".new";
  unlink(unfinished.c_str());
  const int to = open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
  absl::Status status;
  if (to < 0) {
    status = SystemError(unfinished);
  } else {
    // Executable for whatever user the job runs as, whatever the mask is here.
    if (!CopyBytes(from, to) || fchmod(to, 0755) != 0) {
      status = SystemError(unfinished);
    }
    if (close(to) != 0 && status.ok()) {
      status = SystemError(unfinished);
    }
    if (status.ok() && rename(unfinished.c_str(), path.c_str()) != 0) {
      status = SystemError(path);
    }
    if (!status.ok()) {
      unlink(unfinished.c_str());
    }
  }
  close(from);
  return status;
}

}  // namespace asterism::launch
