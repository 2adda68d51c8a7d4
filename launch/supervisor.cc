#include "launch/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/time/time.h"
#include "asterism/v1/worker_port.pb.h"
#include "launch/child_process.h"
#include "launch/clocks.h"
#include "launch/first_cause.h"
#include "launch/port_client.h"
#include "launch/progress_file.h"
#include "launch/side_process.h"

namespace asterism::launch {
namespace {

constexpr int kTickMilliseconds = 100;
constexpr absl::Duration kYoung = absl::Seconds(10);
constexpr absl::Duration kLookPeriod = absl::Seconds(1);
constexpr absl::Duration kSilence = absl::Seconds(5);
constexpr absl::Duration kLastLook = absl::Seconds(1);
// Above what TellWorkersTheEnd takes.
constexpr absl::Duration kTellLimit = absl::Seconds(6);

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

// What the reader of the progress file says: what is newer, and its problem.
std::string LookOf(ProgressFile& file) {
  v1::WorkerState look;
  if (file.Look()) {
    look.mutable_progress()->set_step(file.newest()->step);
    look.mutable_progress()->set_step_time_milliseconds(file.newest()->step_time_milliseconds);
    look.mutable_progress()->set_tokens_per_second(file.newest()->tokens_per_second);
  }
  look.set_progress_problem(file.problem());
  return look.SerializeAsString();
}

// Whether a signal is for the command. The terminal sends its own to the command as well, but for a
// hangup, of which it tells the leader of the session alone.
bool IsForTheCommand(const signalfd_siginfo& info) {
  const auto number = static_cast<int>(info.ssi_signo);
  if (info.ssi_code == SI_KERNEL) {
    return (number == SIGHUP || number == SIGCONT) && getsid(0) == getpid();
  }
  return true;
}

void PassOn(const signalfd_siginfo& info, pid_t to) {
  const auto number = static_cast<int>(info.ssi_signo);
  if (info.ssi_code == SI_QUEUE) {
    // With the value that came with it.
    sigval value{};
    std::memcpy(&value, &info.ssi_ptr, sizeof(value));
    sigqueue(to, number, value);
  } else {
    kill(to, number);
  }
}

class Supervisor {
 public:
  Supervisor(const SupervisorSettings& settings, pid_t child, int signals)
      : settings_(settings),
        child_(child),
        signals_(signals),
        port_(settings.port),
        ranks_("/proc"),
        finder_([root = getpid(), &settings] {
          return FormatRankProcesses(FindRankProcesses("/proc", root, settings.ranks));
        }),
        progress_([file = std::make_shared<ProgressFile>(settings.progress_path)] {
          return LookOf(*file);
        }),
        started_(SteadyNow()) {
    state_.set_job(settings.job);
    state_.set_epoch(settings.epoch);
    state_.set_first_rank(settings.ranks.first);
    state_.set_ranks(settings.ranks.count);
    state_.set_launcher_version(settings.version);
    state_.set_started_unix_nanos(absl::ToUnixNanos(WallNow()));
  }

  // The wait status of the command.
  int Run() {
    port_.Set(state_);
    while (!ended_) {
      Wait();
      Look(SteadyNow());
    }
    return *ended_;
  }

 private:
  void Wait() {
    std::vector<pollfd> waited = {{.fd = signals_, .events = POLLIN},
                                  {.fd = finder_.descriptor(), .events = POLLIN},
                                  {.fd = progress_.descriptor(), .events = POLLIN}};
    const size_t first_rank = waited.size();
    for (const int descriptor : ranks_.descriptors()) {
      waited.push_back({.fd = descriptor, .events = POLLIN});
    }
    // The tick is for what tells nothing by itself: files, new processes, an agent that is back.
    if (poll(waited.data(), waited.size(), kTickMilliseconds) <= 0) {
      return;
    }
    // Time of the event, before anything else is done about it.
    const absl::Time now = WallNow();
    if (waited[0].revents != 0) {
      TakeSignals();
    }
    std::vector<RankEnd> ends;
    for (size_t i = first_rank; i < waited.size(); ++i) {
      if (const auto end = waited[i].revents != 0 ? ranks_.TakeEnd(waited[i].fd) : std::nullopt) {
        ends.push_back(*end);
      }
    }
    if (cause_.Note(ends, now) && !state_.has_first_cause()) {
      *state_.mutable_first_cause() = *cause_.end();
      state_.set_unknown_ends(cause_.unknown_ends());
      port_.Set(state_);
    }
    if (ended_) {
      NoteExit(now);
    } else {
      TakeAnswers();
    }
  }

  void TakeAnswers() {
    if (const auto answer = finder_.Take()) {
      std::vector<RankProcess> found = ParseRankProcesses(*answer);
      // Where the launcher's own environment names a rank, theirs does, too.
      std::erase_if(found, [this](const RankProcess& process) {
        return process.pid == finder_.pid() || process.pid == progress_.pid();
      });
      ranks_.Add(found);
    }
    if (const auto answer = progress_.Take(); answer && NoteProgress(*answer)) {
      port_.Set(state_);
    }
  }

  void TakeSignals() {
    signalfd_siginfo info{};
    while (read(signals_, &info, sizeof(info)) == sizeof(info)) {
      const auto number = static_cast<int>(info.ssi_signo);
      if (number == SIGCHLD) {
        Reap();
      } else if (IsForTheCommand(info)) {
        PassOn(info, child_);
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
      finder_.NoteReaped(pid);
      progress_.NoteReaped(pid);
    }
  }

  void NoteExit(absl::Time now) {
    FillProcessEnd(*state_.mutable_exit(), -1, ended_, now);
    if (*ended_ != 0 && !state_.has_first_cause()) {
      *state_.mutable_first_cause() = state_.exit();
      state_.set_unknown_ends(cause_.unknown_ends());
    }
    if (!settings_.progress_path.empty()) {
      TakeLastProgress();
    }
    port_.Set(state_);
  }

  // What the command wrote just before it ended. A reader that is stuck already is not waited for.
  void TakeLastProgress() {
    const base::SteadyTime now = SteadyNow();
    const auto since = progress_.waiting_since();
    if (since && now - *since > kLastLook) {
      return;
    }
    if (since) {
      // This look may have begun before the last line was written.
      if (const auto answer = progress_.TakeWithin(kLastLook)) {
        NoteProgress(*answer);
      }
    }
    progress_.Ask(SteadyNow());
    if (const auto answer = progress_.TakeWithin(kLastLook - (SteadyNow() - now))) {
      NoteProgress(*answer);
    }
  }

  void Look(base::SteadyTime now) {
    port_.Tick(now);
    if (ended_ || (next_look_ && now < *next_look_)) {
      return;
    }
    next_look_ =
        now + (now - started_ < kYoung ? absl::Milliseconds(kTickMilliseconds) : kLookPeriod);
    if (settings_.ranks.count > 0) {
      finder_.Ask(now);
    }
    if (!settings_.progress_path.empty()) {
      progress_.Ask(now);
      NoteSilence(now);
    }
  }

  // A file system that lets nothing come back is a problem until it does.
  void NoteSilence(base::SteadyTime now) {
    const auto since = progress_.waiting_since();
    if (!since || now - *since < kSilence) {
      return;
    }
    const std::string problem =
        settings_.progress_path + ": its file system does not answer; is its server there?";
    if (state_.progress_problem() != problem) {
      state_.set_progress_problem(problem);
      port_.Set(state_);
    }
  }

  // True when there is something new to tell.
  bool NoteProgress(const std::string& answer) {
    v1::WorkerState look;
    if (!look.ParseFromString(answer)) {
      return false;
    }
    if (look.has_progress()) {
      *state_.mutable_progress() = look.progress();
      state_.mutable_progress()->set_time_unix_nanos(absl::ToUnixNanos(WallNow()));
    }
    const bool problem_changed = state_.progress_problem() != look.progress_problem();
    state_.set_progress_problem(look.progress_problem());
    return look.has_progress() || problem_changed;
  }

  const SupervisorSettings& settings_;
  const pid_t child_;
  const int signals_;
  PortClient port_;
  RankWatch ranks_;
  FirstCause cause_;
  SideProcess finder_;
  SideProcess progress_;
  const base::SteadyTime started_;
  std::optional<base::SteadyTime> next_look_;
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

bool AsksToEnd(int signals) {
  constexpr std::array<uint32_t, 4> kEnds = {SIGTERM, SIGINT, SIGQUIT, SIGHUP};
  signalfd_siginfo info{};
  bool asked = false;
  while (read(signals, &info, sizeof(info)) == sizeof(info)) {
    asked |= std::ranges::find(kEnds, info.ssi_signo) != kEnds.end();
  }
  return asked;
}

// The command has ended well; who asks this process to end meanwhile does not wait for workers.
void TellWorkers(const SupervisorSettings& settings, int signals) {
  SideProcess teller([&settings] {
    TellWorkersOf(settings);
    return std::string();
  });
  teller.Ask(SteadyNow());
  const base::SteadyTime end = SteadyNow() + kTellLimit;
  while (teller.descriptor() >= 0 && !teller.Take() && SteadyNow() < end) {
    std::array<pollfd, 2> waited = {pollfd{.fd = teller.descriptor(), .events = POLLIN},
                                    pollfd{.fd = signals, .events = POLLIN}};
    if (poll(waited.data(), waited.size(), kTickMilliseconds) > 0 && waited[1].revents != 0 &&
        AsksToEnd(signals)) {
      return;
    }
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
    TellWorkers(settings, signals);
  }
  EndLike(status);
}

}  // namespace asterism::launch
