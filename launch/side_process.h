// File: launch/side_process.h
//
// Work that may never return, done in a process beside the launcher: a file system whose server is
// gone lets no open, stat or read come back, and whoever is stuck in one neither hands signals on
// nor ends. A thread would keep its process from ending; a process can be given up.
//
//   SideProcess reader([&] { return ReadTheFile(); });
//   reader.Ask(SteadyNow());                          // does not wait
//   poll({reader.descriptor(), signals}) ...
//   if (auto answer = reader.Take()) ...
//
// The work runs in a copy of this process, made at the first question: what it changes stays there,
// from one question to the next. The copy has none of this process' descriptors, so that nobody
// waits for the end of a stream because of it; it takes no signal but SIGKILL, and ends with this
// process. One that ended is started again, at most once a second.
//
// Given up, it is sent SIGKILL and nobody waits for it. What not even SIGKILL ends (state D) stays
// until its file system answers or is unmounted: a container whose first process the launcher is
// lasts as long, as it does for a process of the job that touched that file.
//
// Bounds: an answer of 128 KiB; a longer one comes as an empty one.
//
// Thread-safety: for a program of one thread. Cost: a fork, then two small packets a question.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "base/clock.h"

namespace asterism::launch {

inline constexpr size_t kSideAnswerMax = size_t{128} << 10;

class SideProcess {
 public:
  using Work = std::function<std::string()>;

  explicit SideProcess(Work work) : work_(std::move(work)) {}
  // Gives it up.
  ~SideProcess();
  SideProcess(const SideProcess&) = delete;
  SideProcess& operator=(const SideProcess&) = delete;

  // Nothing, while an answer is awaited.
  void Ask(base::SteadyTime now);
  // Readable when there is something to take; -1: there is no process.
  int descriptor() const { return socket_; }
  std::optional<std::string> Take();
  // Waits for an answer at most `limit`.
  std::optional<std::string> TakeWithin(absl::Duration limit);
  // Since when a question is without an answer, whatever became of the process; empty: none is.
  std::optional<base::SteadyTime> waiting_since() const { return waiting_since_; }

  // -1: there is none. One that has ended counts until it is waited for.
  pid_t pid() const { return pid_; }
  // Somebody has waited for this process: its number may belong to another one now.
  void NoteReaped(pid_t pid);

 private:
  bool Start(base::SteadyTime now);
  void Forget();

  const Work work_;
  pid_t pid_ = -1;
  int socket_ = -1;
  bool asked_ = false;  // this very process
  std::optional<base::SteadyTime> waiting_since_;
  std::optional<base::SteadyTime> started_;
};

}  // namespace asterism::launch
