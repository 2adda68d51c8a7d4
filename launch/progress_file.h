// File: launch/progress_file.h
//
// Follows the file in which a job writes its progress: JSON lines, appended.
//
//   {"step": 120, "stepTimeMilliseconds": 812.5, "tokensPerSecond": 1.2e6}
//
// `step` is needed; other keys are the job's own business. The newest complete line that has a step
// counts. The file may not exist yet, be cut, be replaced: each look starts from what is there.
//
//   ProgressFile file("/tmp/progress.jsonl");
//   if (file.Look(now)) send(file.newest());
//
// Thread-safety: none. Cost: one stat a look; what was appended is read, the last 64 KiB of it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace asterism::launch {

struct ProgressReading {
  int64_t step = 0;
  double step_time_milliseconds = 0;  // 0: not told
  double tokens_per_second = 0;       // 0: not told
};

// Empty when the line is no JSON object with a whole, non-negative step.
std::optional<ProgressReading> ParseProgressLine(std::string_view line);

class ProgressFile {
 public:
  explicit ProgressFile(std::string path) : path_(std::move(path)) {}

  // True when there is a newer reading.
  bool Look();
  const std::optional<ProgressReading>& newest() const { return newest_; }
  // Why the newest line could not be read; empty: it could, or there is none.
  const std::string& problem() const { return problem_; }

 private:
  bool TakeLines(std::string_view text);

  const std::string path_;
  ino_t inode_ = 0;
  off_t read_ = 0;  // up to here, a line's border
  std::optional<ProgressReading> newest_;
  std::string problem_;
};

}  // namespace asterism::launch
