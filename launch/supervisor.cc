#include "launch/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "asterism/v1/worker_port.pb.h"
#include "launch/child_process.h"
#include "launch/port_client.h"
#include "launch/progress_file.h"

namespace asterism::launch {
namespace {

constexpr int kTickMilliseconds = 100;
constexpr absl::Duration kYoung = absl::Seconds(10);
constexpr absl::Duration kLookPeriod = absl::Seconds(1);
int64_t NumberOr0(const char* text) {
  int64_t number = 0;
  if (text != nullptr) {
    const std::string_view view(text);
    if (std::from_chars(view.data(), view.data() + view.size(), number).ec != std::errc()) {
      return 0;
    }
  }
  return number;
}

// How little an end says about what went wrong: who starts the ranks ends the others when one has
// failed, by SIGTERM and then by SIGKILL; SIGKILL is also how a process without memory ends.
int TellsLess(const RankEnd& end) {
  if (!end.wait_status) {
    return 3;
  }
  const int signal_number = WIFSIGNALED(*end.wait_status) ? WTERMSIG(*end.wait_status) : 0;
  return signal_number == SIGTERM || signal_number == SIGINT ? 2 : signal_number == SIGKILL ? 1 : 0;
}

class Supervisor {
 public:
  Supervisor(const SupervisorSettings& settings, pid_t child, int signals)
      : settings_(settings),
        child_(child),
        signals_(signals),
        port_(settings.port),
        ranks_("/proc", getpid(), settings.ranks),
        progress_(settings.progress_path),
        started_(absl::Now()) {
    state_.set_job(settings.job);
    state_.set_epoch(settings.epoch);
    state_.set_first_rank(settings.ranks.first);
    state_.set_ranks(settings.ranks.count);
    state_.set_launcher_version(settings.version);
    state_.set_started_unix_nanos(absl::ToUnixNanos(started_));
  }

  // The wait status of the command.
  int Run() {
    port_.Set(state_);
    while (!ended_) {
      Wait();
      Look(absl::Now());
    }
    return *ended_;
  }

 private:
  void Wait() {
    std::vector<pollfd> waited = {{.fd = signals_, .events = POLLIN}};
    for (const int descriptor : ranks_.descriptors()) {
      waited.push_back({.fd = descriptor, .events = POLLIN});
    }
    // The tick is for what tells nothing by itself: files, new processes, an agent that is back.
    if (poll(waited.data(), waited.size(), kTickMilliseconds) <= 0) {
      return;
    }
    // Time of the event, before anything else is done about it.
    const absl::Time now = absl::Now();
    if (waited[0].revents != 0) {
      TakeSignals();
    }
    std::vector<RankEnd> ends;
    for (size_t i = 1; i < waited.size(); ++i) {
      if (const auto end = waited[i].revents != 0 ? ranks_.TakeEnd(waited[i].fd) : std::nullopt) {
        ends.push_back(*end);
      }
    }
    // Of those that ended since the last look, the one that was not told to end comes first.
    std::ranges::stable_sort(ends, {}, TellsLess);
    for (const RankEnd& end : ends) {
      NoteRankEnd(end, now);
    }
    if (ended_) {
      NoteExit(now);
    }
  }

  void TakeSignals() {
    signalfd_siginfo info{};
    while (read(signals_, &info, sizeof(info)) == sizeof(info)) {
      const auto number = static_cast<int>(info.ssi_signo);
      if (number == SIGCHLD) {
        Reap();
      } else if (info.ssi_code != SI_KERNEL) {
        // What the kernel itself sends comes from the terminal, to the command as well.
        kill(child_, number);
      }
    }
  }

  void Reap() {
    int status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
      if (pid == child_) {
        ended_ = status;
      }
      ranks_.NoteReaped(pid, status);
    }
  }

  static void Fill(v1::ProcessEnd& end, int64_t rank, std::optional<int> status, absl::Time now) {
    end.set_time_unix_nanos(absl::ToUnixNanos(now));
    end.set_rank(rank);
    if (!status) {
      end.set_exit_code(-1);
    } else if (WIFSIGNALED(*status)) {
      end.set_exit_code(128 + WTERMSIG(*status));
      end.set_signal(WTERMSIG(*status));
    } else {
      end.set_exit_code(WEXITSTATUS(*status));
    }
  }

  void NoteRankEnd(const RankEnd& end, absl::Time now) {
    const bool well = end.wait_status && *end.wait_status == 0;
    // An end that nobody can tell anything about is no evidence of a failure.
    if (well || !end.wait_status || state_.has_first_cause()) {
      return;
    }
    Fill(*state_.mutable_first_cause(), end.rank, end.wait_status, now);
    port_.Set(state_);
  }

  void NoteExit(absl::Time now) {
    Fill(*state_.mutable_exit(), -1, ended_, now);
    if (*ended_ != 0 && !state_.has_first_cause()) {
      *state_.mutable_first_cause() = state_.exit();
    }
    if (!settings_.progress_path.empty()) {
      LookAtProgress(now);
    }
    port_.Set(state_);
  }

  void Look(absl::Time now) {
    port_.Tick(now);
    if (ended_ || now < next_look_) {
      return;
    }
    next_look_ =
        now + (now - started_ < kYoung ? absl::Milliseconds(kTickMilliseconds) : kLookPeriod);
    ranks_.Scan();
    if (!settings_.progress_path.empty() && LookAtProgress(now)) {
      port_.Set(state_);
    }
  }

  bool LookAtProgress(absl::Time now) {
    const bool newer = progress_.Look();
    if (newer) {
      v1::Progress& told = *state_.mutable_progress();
      told.set_step(progress_.newest()->step);
      told.set_step_time_milliseconds(progress_.newest()->step_time_milliseconds);
      told.set_tokens_per_second(progress_.newest()->tokens_per_second);
      told.set_time_unix_nanos(absl::ToUnixNanos(now));
    }
    const bool problem_changed = state_.progress_problem() != progress_.problem();
    state_.set_progress_problem(progress_.problem());
    return newer || problem_changed;
  }

  const SupervisorSettings& settings_;
  const pid_t child_;
  const int signals_;
  PortClient port_;
  RankWatch ranks_;
  ProgressFile progress_;
  const absl::Time started_;
  absl::Time next_look_ = absl::InfinitePast();
  v1::WorkerState state_;
  std::optional<int> ended_;
};

void TellWorkersOf(const SupervisorSettings& settings) {
  std::ifstream file(settings.host_file);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::string> hosts = HostsOf(text);
  if (!hosts.empty()) {
    hosts.erase(hosts.begin());  // this pod
    TellWorkersTheEnd(hosts, settings.remote);
  }
}

}  // namespace

SupervisorSettings SettingsFromEnvironment(
    const std::function<const char*(const char*)>& environment) {
  const auto text = [&](const char* name) {
    const char* value = environment(name);
    return std::string(value == nullptr ? "" : value);
  };
  return {.port = text("ASTERISM_PORT"),
          .job = text("ASTERISM_JOB"),
          .epoch = NumberOr0(environment("ASTERISM_EPOCH")),
          .ranks = {.first = NumberOr0(environment("ASTERISM_RANK_FIRST")),
                    .count = NumberOr0(environment("ASTERISM_RANKS"))},
          .progress_path = text("ASTERISM_PROGRESS_FILE"),
          .host_file = text("ASTERISM_HOSTFILE"),
          .remote = RemoteSettingsFrom(environment)};
}

void Supervise(const std::vector<std::string>& command, const SupervisorSettings& settings) {
  const sigset_t before = BlockAllSignals();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t all;
  sigfillset(&all);
  const int signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
  const absl::StatusOr<pid_t> child = StartChild(command, before);
  if (!child.ok()) {
    fprintf(stderr, "asterism-launch: %s\n", std::string(child.status().message()).c_str());
    _exit(ExitCodeFor(child.status()));
  }
  int status = 0;
  if (signals < 0) {
    // Without descriptors to spare there is nothing to tell; the job still runs.
    while (waitpid(*child, &status, 0) < 0 && errno == EINTR) {
    }
  } else {
    status = Supervisor(settings, *child, signals).Run();
  }
  if (status == 0 && settings.ranks.first == 0 && !settings.remote.key_path.empty()) {
    TellWorkersOf(settings);
  }
  EndLike(status);
}

}  // namespace asterism::launch
