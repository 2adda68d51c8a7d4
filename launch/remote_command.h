// File: launch/remote_command.h
//
// One command of the remote shell, in the pod where it runs: its streams go through a channel to
// the caller, and when the caller is gone it ends with all that it started.
//
//   const absl::Status status = RemoteCommand(channel, mask).Run("orted -mca ...");
//
// This process becomes the subreaper of the command: what the command starts and leaves behind, in
// a session of its own or not, stays below it. A command that has ended and left processes behind
// while its caller is still there leaves them for good, as with ssh: so daemons start.
//
// Thread-safety: for a process of one thread and one command. Cost: a fork; a look at all processes
// when the caller is gone.
#pragma once

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "launch/psk_channel.h"

namespace asterism::launch {

// Kinds of messages. From the caller: a command, or that the job has ended, first; then its input.
inline constexpr char kCommandMessage = 'C';
inline constexpr char kJobEndMessage = 'D';
inline constexpr char kInputMessage = 'I';
inline constexpr char kInputEndMessage = 'i';
// To the caller: both streams, and the exit code in decimal digits, last.
inline constexpr char kOutputMessage = 'O';
inline constexpr char kErrorsMessage = 'E';
inline constexpr char kExitMessage = 'X';

// A piece fits into the socket's free space whenever poll says that there is some, so that a side
// that sends never waits for one that sends too.
inline constexpr size_t kStreamPiece = size_t{16} << 10;

class RemoteCommand {
 public:
  RemoteCommand(PskChannel& channel, const sigset_t& mask) : channel_(channel), mask_(mask) {}

  // Returns when the caller has its exit code, or is gone and all has ended.
  absl::Status Run(const std::string& command);

 private:
  struct Pipe {
    int read = -1;
    int write = -1;
    ~Pipe() {
      CloseRead();
      CloseWrite();
    }
    void CloseRead() { Close(read); }
    void CloseWrite() { Close(write); }
    bool Open();

   private:
    static void Close(int& end) {
      if (end >= 0) {
        close(end);
      }
      end = -1;
    }
  };

  absl::Status Pump();
  absl::StatusOr<int> AwaitEnd();
  absl::Status TakeMessage();
  void FeedInput();
  absl::Status Forward(Pipe& pipe, char kind);
  bool Reap();
  void SignalAll(int number) const;
  void EndAll();

  PskChannel& channel_;
  const sigset_t& mask_;
  Pipe input_;
  Pipe output_;
  Pipe errors_;
  std::string unwritten_;
  pid_t child_ = -1;
  std::optional<int> wait_status_;
};

}  // namespace asterism::launch
