// File: launch/pending_callers.h
//
// Who has connected to the remote shell and has not proved yet that it belongs to the job. Anybody
// who reaches the port can connect and say nothing; so the newest one always gets in, and for it
// goes the oldest of the address that has the most: who floods the port pushes out itself.
//
//   if (const auto given_up = pending.Add(handler, peer)) kill(*given_up, SIGKILL);
//   pending.Remove(handler);      // it has proved it, or has ended
//
// Thread-safety: none. Cost: O(kPendingMax).
#pragma once

#include <sys/types.h>

#include <list>
#include <optional>
#include <string>

namespace asterism::launch {

inline constexpr size_t kPendingMax = 128;
inline constexpr size_t kPendingOfPeerMax = 32;

class PendingCallers {
 public:
  // The one that has to go for it, and is forgotten here.
  std::optional<pid_t> Add(pid_t handler, const std::string& peer);
  // Nothing for one that is not there.
  void Remove(pid_t handler);
  size_t size() const { return callers_.size(); }

 private:
  struct Caller {
    pid_t handler = 0;
    std::string peer;
  };

  std::optional<pid_t> DropOldestOf(const std::string& peer);

  std::list<Caller> callers_;  // the oldest first
};

}  // namespace asterism::launch
