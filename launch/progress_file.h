// File: launch/progress_file.h
//
// Follows the file in which a job writes its progress: JSON lines, appended.
//
//   {"step": 120, "stepTimeMilliseconds": 812.5, "tokensPerSecond": 1.2e6}
//
// `step` is needed; other keys are the job's own business. The newest complete line that has a step
// counts. The file may not exist yet, be cut, be replaced, be written over in place with as many
// bytes as before: each look starts from what is there.
//
//   ProgressFile file("/tmp/progress.jsonl");
//   if (file.Look()) send(file.newest());
//
// A look takes as long as the file system does, which may be for ever: it is for a SideProcess.
//
// Thread-safety: none. Cost: one stat a look; while the file changes, and three looks longer, since
// the times of a file are coarse, the last 64 KiB of it are read.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace asterism::launch {

struct ProgressReading {
  int64_t step = 0;
  double step_time_milliseconds = 0;  // finite; 0: not told
  double tokens_per_second = 0;       // finite; 0: not told
};

struct ProgressLine {
  // Empty when the line is no JSON object with a whole step from 0 to 2^63 - 1.
  std::optional<ProgressReading> reading;
  // What is wrong with the line. With a reading: a number that is no finite one of 0 or more is
  // left out of it.
  std::string problem;
};

// NaN, Infinity and -Infinity, which Python writes and JSON does not know, spoil their own key
// only.
ProgressLine ParseProgressLine(std::string_view line);

class ProgressFile {
 public:
  explicit ProgressFile(std::string path) : path_(std::move(path)) {}

  // True when there is a newer reading.
  bool Look();
  const std::optional<ProgressReading>& newest() const { return newest_; }
  // What is wrong with the newest line; empty: nothing, or there is none.
  const std::string& problem() const { return problem_; }

 private:
  bool Changed(const struct stat& now);
  bool TakeNewest(std::string_view text, off_t from);

  const std::string path_;
  struct stat seen_ {};
  int looks_unchanged_ = 0;
  // The line that counts: where it stands, and its text.
  off_t line_at_ = -1;
  std::string line_;
  std::string line_problem_;
  std::optional<ProgressReading> newest_;
  std::string problem_;
};

}  // namespace asterism::launch
