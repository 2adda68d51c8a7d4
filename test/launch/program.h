// File: test/launch/program.h
//
// The built asterism-launch as a process of its own, and a socket that plays the agent.
//
// Thread-safety: none. Cost: a process.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "asterism/v1/worker_port.pb.h"

namespace asterism::launch {

struct ProgramEnd {
  int wait_status = 0;
  std::string output;  // both streams
};

class Program {
 public:
  Program(const std::vector<std::string>& arguments,
          const std::map<std::string, std::string>& environment = {}, std::string input = {},
          bool close_input = true);
  ~Program();

  pid_t pid() const { return pid_; }
  void Signal(int number) const;
  void CloseInput();
  // Reads until both streams have ended.
  ProgramEnd End();
  // What was printed so far contains `text`; false after ten seconds.
  bool Prints(const std::string& text);

 private:
  bool ReadSome(int milliseconds);

  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
  std::string read_;
};

class FakeAgent {
 public:
  FakeAgent();
  ~FakeAgent();

  const std::string& path() const { return path_; }
  // The next state that a launcher tells; empty after ten seconds.
  std::optional<v1::WorkerState> Next();
  // The first one that `wanted` likes.
  template <typename Wanted>
  std::optional<v1::WorkerState> Await(Wanted wanted) {
    while (auto state = Next()) {
      if (wanted(*state)) {
        return state;
      }
    }
    return std::nullopt;
  }
  // Drops the connection, as an agent does that ends.
  void Drop();

 private:
  std::string path_;
  int listener_ = -1;
  int connection_ = -1;
};

}  // namespace asterism::launch
