#include "cli/live_screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <string_view>

namespace asterism::cli {
namespace {

sigset_t Watched() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) {
    sigaddset(&signals, signal);
  }
  return signals;
}

bool WriteAll(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written <= 0) {
      return false;
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// A second screen without cursor; the first one comes back with its scrollback.
class SecondScreen {
 public:
  SecondScreen() { WriteAll("\x1b[?1049h\x1b[?25l"); }
  ~SecondScreen() { WriteAll("\x1b[?25h\x1b[?1049l"); }
  SecondScreen(const SecondScreen&) = delete;
  SecondScreen& operator=(const SecondScreen&) = delete;

  // False when the terminal is gone. Lines are overwritten in place: clearing first would flicker.
  bool Show(std::string_view text) {
    std::string out = "\x1b[H";
    for (const char c : text) {
      out += c == '\n' ? std::string_view("\x1b[K\r\n") : std::string_view(&c, 1);
    }
    return WriteAll(out + "\x1b[J");
  }
};

}  // namespace

bool StandardOutputIsTerminal() {
  return isatty(STDOUT_FILENO) == 1;
}

TerminalSize SizeOfTerminal() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) {
    return {};
  }
  return {.columns = size.ws_col, .rows = size.ws_row};
}

void BlockSignals() {
  const sigset_t signals = Watched();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void RunLiveScreen(absl::Duration interval, const std::function<std::string(TerminalSize)>& draw) {
  const sigset_t signals = Watched();
  const timespec wait = absl::ToTimespec(interval);
  SecondScreen screen;
  while (screen.Show(draw(SizeOfTerminal()))) {
    const int signal = sigtimedwait(&signals, nullptr, &wait);
    if (signal > 0 && signal != SIGWINCH) {
      return;
    }
  }
}

}  // namespace asterism::cli
