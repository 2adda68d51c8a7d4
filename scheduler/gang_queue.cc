#include "scheduler/gang_queue.h"

#include <iterator>
#include <utility>

namespace asterism::scheduler {

bool GangQueue::Earlier::operator()(const QueuedGang& left, const QueuedGang& right) const {
  if (left.priority != right.priority) {
    return left.priority > right.priority;
  }
  if (left.created != right.created) {
    return left.created < right.created;
  }
  return left.name != right.name ? left.name < right.name : left.uid < right.uid;
}

void GangQueue::Put(QueuedGang gang) {
  if (const QueuedGang* known = Find(gang.uid); known != nullptr) {
    gang.waiting_since = known->waiting_since;
    Remove(gang.uid);
  }
  std::string uid = gang.uid;
  by_uid_.emplace(std::move(uid), gangs_.insert(std::move(gang)).first);
}

bool GangQueue::Remove(std::string_view uid) {
  const auto it = by_uid_.find(uid);
  if (it == by_uid_.end()) {
    return false;
  }
  const Gangs::const_iterator gang = it->second;
  by_uid_.erase(it);  // before the gang, whose uid the caller may have passed
  gangs_.erase(gang);
  return true;
}

const QueuedGang* GangQueue::Find(std::string_view uid) const {
  const auto it = by_uid_.find(uid);
  return it == by_uid_.end() ? nullptr : &*it->second;
}

size_t GangQueue::Position(std::string_view uid) const {
  const auto it = by_uid_.find(uid);
  if (it == by_uid_.end()) {
    return 0;
  }
  return static_cast<size_t>(std::distance(gangs_.begin(), it->second)) + 1;
}

size_t GangQueue::PositionFor(const QueuedGang& gang) const {
  return static_cast<size_t>(std::distance(gangs_.begin(), gangs_.lower_bound(gang))) + 1;
}

}  // namespace asterism::scheduler
