#include "agent/probe/probe_thread.h"

#include <pthread.h>

#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"

namespace asterism::agent {
namespace {

constexpr absl::Duration kFarewell = absl::Seconds(1);

}  // namespace

// Outlives the owner for as long as a call hangs.
struct ProbeThread::Shared {
  std::unique_ptr<Probe> probe;  // of the thread
  base::SystemClock clock;
  absl::Mutex mutex;
  absl::CondVar changed;
  bool asked ABSL_GUARDED_BY(mutex) = false;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  bool ended ABSL_GUARDED_BY(mutex) = false;
  // Both belong to the owner, and are not touched once it is gone.
  base::Executor* executor ABSL_GUARDED_BY(mutex) = nullptr;
  std::shared_ptr<Done> done ABSL_GUARDED_BY(mutex);
};

ProbeThread::ProbeThread(std::unique_ptr<Probe> probe, base::Executor& executor, Done done)
    : name_(probe->name()), period_(probe->period()), shared_(std::make_shared<Shared>()) {
  shared_->probe = std::move(probe);
  {
    const absl::MutexLock lock(&shared_->mutex);
    shared_->executor = &executor;
    shared_->done = std::make_shared<Done>(std::move(done));
  }
  std::thread([shared = shared_] { Loop(shared); }).detach();
}

ProbeThread::~ProbeThread() {
  const absl::MutexLock lock(&shared_->mutex);
  shared_->stopping = true;
  shared_->executor = nullptr;
  shared_->done.reset();
  shared_->changed.SignalAll();
  const base::SteadyTime began = shared_->clock.SteadyNow();
  while (!shared_->ended && shared_->clock.SteadyNow() - began < kFarewell) {
    shared_->changed.WaitWithTimeout(&shared_->mutex, kFarewell);
  }
}

bool ProbeThread::Ask() {
  const absl::MutexLock lock(&shared_->mutex);
  if (shared_->asked) {
    return false;
  }
  shared_->asked = true;
  shared_->changed.SignalAll();
  return true;
}

void ProbeThread::Loop(const std::shared_ptr<Shared>& shared) {
  pthread_setname_np(pthread_self(), ("probe-" + shared->probe->name()).substr(0, 15).c_str());
  while (true) {
    {
      const absl::MutexLock lock(&shared->mutex);
      while (!shared->asked && !shared->stopping) {
        shared->changed.Wait(&shared->mutex);
      }
      if (shared->stopping) {
        break;
      }
    }
    const base::SteadyTime began = shared->clock.SteadyNow();
    ProbeResult result = shared->probe->Run();
    const absl::Duration took = shared->clock.SteadyNow() - began;
    const absl::MutexLock lock(&shared->mutex);
    shared->asked = false;
    if (shared->executor != nullptr) {
      shared->executor->Post(
          [done = std::weak_ptr<Done>(shared->done), result = std::move(result), took]() mutable {
            if (const std::shared_ptr<Done> tell = done.lock()) {
              (*tell)(std::move(result), took);
            }
          });
    }
  }
  const absl::MutexLock lock(&shared->mutex);
  shared->ended = true;
  shared->changed.SignalAll();
}

}  // namespace asterism::agent
