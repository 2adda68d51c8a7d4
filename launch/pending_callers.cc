#include "launch/pending_callers.h"

#include <algorithm>
#include <map>

namespace asterism::launch {

std::optional<pid_t> PendingCallers::DropOldestOf(const std::string& peer) {
  const auto oldest = std::ranges::find(callers_, peer, &Caller::peer);
  if (oldest == callers_.end()) {
    return std::nullopt;
  }
  const pid_t handler = oldest->handler;
  callers_.erase(oldest);
  return handler;
}

std::optional<pid_t> PendingCallers::Add(pid_t handler, const std::string& peer) {
  callers_.push_back({.handler = handler, .peer = peer});
  std::map<std::string, size_t> counts;
  size_t most = 0;
  for (const Caller& caller : callers_) {
    most = std::max(most, ++counts[caller.peer]);
  }
  if (counts[peer] > kPendingOfPeerMax) {
    return DropOldestOf(peer);
  }
  if (callers_.size() <= kPendingMax) {
    return std::nullopt;
  }
  // Of addresses that have equally many, the one that came first.
  const auto first = std::ranges::find_if(
      callers_, [&](const Caller& caller) { return counts[caller.peer] == most; });
  return DropOldestOf(first->peer);
}

void PendingCallers::Remove(pid_t handler) {
  callers_.remove_if([handler](const Caller& caller) { return caller.handler == handler; });
}

}  // namespace asterism::launch
