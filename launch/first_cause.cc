#include "launch/first_cause.h"

#include <signal.h>
#include <sys/wait.h>

namespace asterism::launch {
namespace {

// How little an end says about what went wrong. SIGKILL follows SIGTERM, and is also how a process
// without memory ends.
int TellsLess(int wait_status) {
  const int signal_number = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
  return signal_number == SIGTERM || signal_number == SIGINT ? 2 : signal_number == SIGKILL ? 1 : 0;
}

}  // namespace

void FillProcessEnd(v1::ProcessEnd& end, int64_t rank, std::optional<int> wait_status,
                    absl::Time time) {
  end.set_time_unix_nanos(absl::ToUnixNanos(time));
  end.set_rank(rank);
  if (!wait_status) {
    end.set_exit_code(-1);
  } else if (WIFSIGNALED(*wait_status)) {
    end.set_exit_code(128 + WTERMSIG(*wait_status));
    end.set_signal(WTERMSIG(*wait_status));
  } else {
    end.set_exit_code(WEXITSTATUS(*wait_status));
  }
}

bool FirstCause::Note(const std::vector<RankEnd>& ends, absl::Time time) {
  if (end_) {
    return false;
  }
  const RankEnd* first = nullptr;
  for (const RankEnd& end : ends) {
    if (!end.wait_status) {
      ++unknown_ends_;
    } else if (*end.wait_status != 0 &&
               (first == nullptr || TellsLess(*end.wait_status) < TellsLess(*first->wait_status))) {
      first = &end;
    }
  }
  if (first == nullptr) {
    return false;
  }
  const bool told_to_end = TellsLess(*first->wait_status) > 0;
  end_.emplace();
  if (told_to_end && unknown_ends_ > 0) {
    FillProcessEnd(*end_, -1, std::nullopt, time);
  } else {
    FillProcessEnd(*end_, first->rank, first->wait_status, time);
  }
  return true;
}

}  // namespace asterism::launch
