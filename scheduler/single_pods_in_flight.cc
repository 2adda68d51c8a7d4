#include "scheduler/single_pods_in_flight.h"

namespace asterism::scheduler {
namespace {

// More than kube-scheduler binds in a moment: some are gone.
constexpr size_t kMany = 4096;

}  // namespace

void SinglePodsInFlight::ForgetOld(base::SteadyTime now) {
  absl::erase_if(pods_,
                 [&](const auto& entry) { return now - entry.second.passed > kLongestBinding; });
}

void SinglePodsInFlight::Passed(std::string_view uid, std::string_view name) {
  const base::SteadyTime now = clock_.SteadyNow();
  absl::MutexLock lock(&mutex_);
  if (pods_.size() >= kMany) {
    ForgetOld(now);
  }
  pods_.insert_or_assign(std::string(uid), Pod{.name = std::string(name), .passed = now});
}

void SinglePodsInFlight::Settled(std::string_view uid) {
  absl::MutexLock lock(&mutex_);
  if (const auto found = pods_.find(uid); found != pods_.end()) {
    pods_.erase(found);
  }
}

size_t SinglePodsInFlight::size() const {
  absl::MutexLock lock(&mutex_);
  return pods_.size();
}

std::string SinglePodsInFlight::Any() {
  const base::SteadyTime now = clock_.SteadyNow();
  absl::MutexLock lock(&mutex_);
  ForgetOld(now);
  return pods_.empty() ? "" : pods_.begin()->second.name;
}

}  // namespace asterism::scheduler
