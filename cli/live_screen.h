// File: cli/live_screen.h
//
// Draws lines over and over on a terminal until Ctrl-C, and leaves the terminal as it was.
//
//   BlockSignals();                 // before any thread starts
//   RunLiveScreen(absl::Seconds(2), [&](TerminalSize size) { return Print(...); });
//
// Draws again at once when the window changes its size.
//
// Thread-safety: one at a time, on the main thread. Cost: one write a drawing.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "absl/time/time.h"

namespace asterism::cli {

struct TerminalSize {
  size_t columns = 0;  // 0: not known
  size_t rows = 0;
};

// Of the terminal behind standard output.
bool StandardOutputIsTerminal();
TerminalSize SizeOfTerminal();

// Signals are taken by RunLiveScreen; every thread that starts later inherits the mask.
void BlockSignals();
// `draw` returns whole lines, with their newlines.
void RunLiveScreen(absl::Duration interval, const std::function<std::string(TerminalSize)>& draw);

}  // namespace asterism::cli
