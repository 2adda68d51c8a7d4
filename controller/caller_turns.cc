#include "controller/caller_turns.h"

#include <utility>

namespace asterism::controller {

void CallerTurns::Post(const std::string& caller, base::Work work) {
  {
    absl::MutexLock lock(&mutex_);
    const auto [slot, first] = waiting_.try_emplace(caller);
    slot->second.push_back(std::move(work));
    if (!first) {
      return;
    }
  }
  worker_.Post([this, caller] { RunOne(caller); });
}

void CallerTurns::RunOne(const std::string& caller) {
  base::Work work;
  {
    absl::MutexLock lock(&mutex_);
    std::deque<base::Work>& mine = waiting_.find(caller)->second;
    work = std::move(mine.front());
    mine.pop_front();
  }
  work();
  work = nullptr;  // what it held may post as it goes
  {
    absl::MutexLock lock(&mutex_);
    const auto slot = waiting_.find(caller);
    if (slot->second.empty()) {
      waiting_.erase(slot);
      return;
    }
  }
  worker_.Post([this, caller] { RunOne(caller); });  // behind the others
}

}  // namespace asterism::controller
