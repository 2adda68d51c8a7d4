#include "base/open_files.h"

#include <sys/resource.h>

#include <algorithm>

namespace asterism::base {

size_t RaiseOpenFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, kOpenFilesMax);
    if (limit.rlim_cur < wanted) {
      limit.rlim_cur = wanted;
      setrlimit(RLIMIT_NOFILE, &limit);  // where it fails, the old one holds
    }
  }
  return OpenFileLimit();
}

size_t OpenFileLimit() {
  constexpr size_t kOfPosix = 20;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return kOfPosix;
  }
  return static_cast<size_t>(std::min<rlim_t>(limit.rlim_cur, kOpenFilesMax));
}

}  // namespace asterism::base
