#include "launch/copy_self.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>

namespace asterism::launch {
namespace {

absl::Status SystemError(const std::string& what) {
  const int error = errno;
  const std::string remedy = RemedyForCopy(error);
  return absl::InternalError(what + ": " + strerror(error) + (remedy.empty() ? "" : ": ") + remedy);
}

bool CopyBytes(int from, int to) {
  std::array<char, size_t{64} << 10> buffer{};
  ssize_t got = 0;
  // Not the signal of a file that grows beyond a limit, but its error.
  signal(SIGXFSZ, SIG_IGN);
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

std::string RemedyForCopy(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "the program needs about 10 MB there: make the volume larger (emptyDir.sizeLimit), or "
             "free "
             "space on the disk of the node";
    case EROFS:
      return "mount the volume writable here (without readOnly); only the job's container needs it "
             "read-only";
    case ENOENT:
    case ENOTDIR:
      return "name a folder that exists: mount a volume there (an emptyDir will do)";
    case EACCES:
    case EPERM:
      return "let user " + std::to_string(geteuid()) +
             " write there: set securityContext.fsGroup of the pod, or runAsUser of this container";
    case ENOMEM:
      return "give this container more memory (resources.limits.memory; 64Mi will do)";
    default:
      return "";
  }
}

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
