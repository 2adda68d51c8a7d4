#include "test/launch/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>

namespace asterism::launch {
namespace {

constexpr int kWaitMilliseconds = 10'000;

}  // namespace

Program::Program(const std::vector<std::string>& arguments,
                 const std::map<std::string, std::string>& environment, std::string input,
                 bool close_input) {
  std::array<int, 2> output{};
  std::array<int, 2> feed{};
  if (pipe2(output.data(), O_CLOEXEC) != 0 || pipe2(feed.data(), O_CLOEXEC) != 0) {
    return;
  }
  std::vector<char*> words = {const_cast<char*>(ASTERISM_LAUNCH)};
  for (const std::string& argument : arguments) {
    words.push_back(const_cast<char*>(argument.c_str()));
  }
  words.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);
    for (const auto& [name, value] : environment) {
      setenv(name.c_str(), value.c_str(), 1);
    }
    dup2(feed[0], STDIN_FILENO);
    dup2(output[1], STDOUT_FILENO);
    dup2(output[1], STDERR_FILENO);
    execv(words[0], words.data());
    _exit(99);
  }
  setpgid(pid_, pid_);
  close(output[1]);
  close(feed[0]);
  output_ = output[0];
  // A program need not read what it is given.
  const auto before = signal(SIGPIPE, SIG_IGN);
  [[maybe_unused]] const ssize_t written = write(feed[1], input.data(), input.size());
  signal(SIGPIPE, before);
  input_ = feed[1];
  if (close_input) {
    CloseInput();
  }
}

Program::~Program() {
  if (pid_ > 0) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(output_);
  CloseInput();
}

void Program::CloseInput() {
  if (input_ >= 0) {
    close(input_);
  }
  input_ = -1;
}

void Program::Signal(int number) const {
  kill(pid_, number);
}

bool Program::ReadSome(int milliseconds) {
  pollfd waited{.fd = output_, .events = POLLIN};
  if (poll(&waited, 1, milliseconds) != 1) {
    return false;
  }
  std::array<char, 65536> buffer{};
  const ssize_t got = read(output_, buffer.data(), buffer.size());
  if (got <= 0) {
    return false;
  }
  read_.append(buffer.data(), static_cast<size_t>(got));
  return true;
}

bool Program::Prints(const std::string& text) {
  while (read_.find(text) == std::string::npos) {
    if (!ReadSome(kWaitMilliseconds)) {
      return false;
    }
  }
  return true;
}

ProgramEnd Program::End() {
  // However long it takes: what was not read would look like nothing printed.
  while (ReadSome(/*milliseconds=*/-1)) {
  }
  ProgramEnd end;
  waitpid(pid_, &end.wait_status, 0);
  pid_ = -1;
  end.output = read_;
  return end;
}

FakeAgent::FakeAgent() {
  static std::atomic<int> number = 0;
  path_ = "/tmp/asterism-port-" + std::to_string(getpid()) + "-" + std::to_string(++number);
  unlink(path_.c_str());
  sockaddr_un address{.sun_family = AF_UNIX};
  std::memcpy(address.sun_path, path_.data(), path_.size());
  listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  listen(listener_, 8);
}

FakeAgent::~FakeAgent() {
  Drop();
  close(listener_);
  unlink(path_.c_str());
}

void FakeAgent::Drop() {
  if (connection_ >= 0) {
    close(connection_);
  }
  connection_ = -1;
}

std::optional<v1::WorkerState> FakeAgent::Next() {
  if (connection_ < 0) {
    pollfd waited{.fd = listener_, .events = POLLIN};
    if (poll(&waited, 1, kWaitMilliseconds) != 1) {
      return std::nullopt;
    }
    connection_ = accept(listener_, nullptr, nullptr);
  }
  std::array<char, 65536> packet{};
  pollfd waited{.fd = connection_, .events = POLLIN};
  if (poll(&waited, 1, kWaitMilliseconds) != 1) {
    return std::nullopt;
  }
  const ssize_t got = recv(connection_, packet.data(), packet.size(), 0);
  v1::WorkerState state;
  if (got <= 0 || !state.ParseFromArray(packet.data(), static_cast<int>(got))) {
    return std::nullopt;
  }
  return state;
}

}  // namespace asterism::launch
