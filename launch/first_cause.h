// File: launch/first_cause.h
//
// Which rank's end comes first as the cause of a failure. Who starts the ranks ends the others when
// one has failed, so a rank that was told to end (SIGTERM, SIGINT, SIGKILL) after another one ended
// nobody knows how is named by nobody: an unknown cause is better than a wrong one.
//
//   FirstCause cause;
//   if (cause.Note(ends_of_one_look, WallNow())) send(*cause.end());
//
// Thread-safety: none. Cost: O(ends).
#pragma once

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "asterism/v1/worker_port.pb.h"
#include "launch/rank_watch.h"

namespace asterism::launch {

// `rank` -1: not one of the ranks. Empty `wait_status`: nobody knows.
void FillProcessEnd(v1::ProcessEnd& end, int64_t rank, std::optional<int> wait_status,
                    absl::Time time);

class FirstCause {
 public:
  // Ranks that ended since the last look, in any order. True when this settles the cause.
  bool Note(const std::vector<RankEnd>& ends, absl::Time time);

  // Rank -1 with exit code -1: there is one, and nobody knows which rank it was.
  const std::optional<v1::ProcessEnd>& end() const { return end_; }
  // Ranks that ended before, nobody knows how.
  int64_t unknown_ends() const { return unknown_ends_; }

 private:
  std::optional<v1::ProcessEnd> end_;
  int64_t unknown_ends_ = 0;
};

}  // namespace asterism::launch
