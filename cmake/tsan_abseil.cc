// Tells ThreadSanitizer about Abseil's locks. The distribution's Abseil is built without it, so
// without this file every value behind an absl::Mutex looks like a data race. Linked into each
// program of the tsan preset, with -Wl,--wrap for each function below (AsterismBuild.cmake reads
// the names from here).
//
// Conditions (Mutex::Await, LockWhen) are not covered: whoever unlocks evaluates them for the
// waiter. Code here waits with CondVar and Notification.
#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace {

void Acquire(const void* lock) {
  __tsan_acquire(const_cast<void*>(lock));
}
void Release(const void* lock) {
  __tsan_release(const_cast<void*>(lock));
}
// Notification::HasBeenNotified is inline and reads this atomic, the member after the mutex.
const void* FlagOf(const absl::Notification* notification) {
  return reinterpret_cast<const char*>(notification) + sizeof(absl::Mutex);
}

}  // namespace

// NOLINTBEGIN
#define REAL(name) __real_##name
#define WRAP(name) __wrap_##name

extern "C" {

void REAL(_ZN4absl7debian35Mutex4LockEv)(absl::Mutex*);
void WRAP(_ZN4absl7debian35Mutex4LockEv)(absl::Mutex* mutex) {
  REAL(_ZN4absl7debian35Mutex4LockEv)(mutex);
  Acquire(mutex);
}

void REAL(_ZN4absl7debian35Mutex6UnlockEv)(absl::Mutex*);
void WRAP(_ZN4absl7debian35Mutex6UnlockEv)(absl::Mutex* mutex) {
  Release(mutex);
  REAL(_ZN4absl7debian35Mutex6UnlockEv)(mutex);
}

bool REAL(_ZN4absl7debian35Mutex7TryLockEv)(absl::Mutex*);
bool WRAP(_ZN4absl7debian35Mutex7TryLockEv)(absl::Mutex* mutex) {
  const bool locked = REAL(_ZN4absl7debian35Mutex7TryLockEv)(mutex);
  if (locked) {
    Acquire(mutex);
  }
  return locked;
}

void REAL(_ZN4absl7debian35Mutex10ReaderLockEv)(absl::Mutex*);
void WRAP(_ZN4absl7debian35Mutex10ReaderLockEv)(absl::Mutex* mutex) {
  REAL(_ZN4absl7debian35Mutex10ReaderLockEv)(mutex);
  Acquire(mutex);
}

void REAL(_ZN4absl7debian35Mutex12ReaderUnlockEv)(absl::Mutex*);
void WRAP(_ZN4absl7debian35Mutex12ReaderUnlockEv)(absl::Mutex* mutex) {
  Release(mutex);
  REAL(_ZN4absl7debian35Mutex12ReaderUnlockEv)(mutex);
}

void REAL(_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE)(absl::CondVar*, absl::Mutex*);
void WRAP(_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE)(absl::CondVar* wake, absl::Mutex* mutex) {
  Release(mutex);
  REAL(_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE)(wake, mutex);
  Acquire(mutex);
}

bool REAL(_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE)(absl::CondVar*,
                                                                                absl::Mutex*,
                                                                                absl::Duration);
bool WRAP(_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE)(
    absl::CondVar* wake, absl::Mutex* mutex, absl::Duration timeout) {
  Release(mutex);
  const bool timed_out = REAL(_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE)(
      wake, mutex, timeout);
  Acquire(mutex);
  return timed_out;
}

bool REAL(_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE)(absl::CondVar*,
                                                                             absl::Mutex*,
                                                                             absl::Time);
bool WRAP(_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE)(absl::CondVar* wake,
                                                                             absl::Mutex* mutex,
                                                                             absl::Time deadline) {
  Release(mutex);
  const bool timed_out = REAL(_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE)(
      wake, mutex, deadline);
  Acquire(mutex);
  return timed_out;
}

void REAL(_ZN4absl7debian312Notification6NotifyEv)(absl::Notification*);
void WRAP(_ZN4absl7debian312Notification6NotifyEv)(absl::Notification* notification) {
  Release(FlagOf(notification));
  REAL(_ZN4absl7debian312Notification6NotifyEv)(notification);
}

void REAL(_ZNK4absl7debian312Notification19WaitForNotificationEv)(const absl::Notification*);
void WRAP(_ZNK4absl7debian312Notification19WaitForNotificationEv)(
    const absl::Notification* notification) {
  REAL(_ZNK4absl7debian312Notification19WaitForNotificationEv)(notification);
  Acquire(FlagOf(notification));
}

bool REAL(_ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE)(
    const absl::Notification*, absl::Duration);
bool WRAP(_ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE)(
    const absl::Notification* notification, absl::Duration timeout) {
  const bool notified =
      REAL(_ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE)(
          notification, timeout);
  if (notified) {
    Acquire(FlagOf(notification));
  }
  return notified;
}

bool REAL(_ZN4absl7debian315BlockingCounter14DecrementCountEv)(absl::BlockingCounter*);
bool WRAP(_ZN4absl7debian315BlockingCounter14DecrementCountEv)(absl::BlockingCounter* counter) {
  Release(counter);
  return REAL(_ZN4absl7debian315BlockingCounter14DecrementCountEv)(counter);
}

void REAL(_ZN4absl7debian315BlockingCounter4WaitEv)(absl::BlockingCounter*);
void WRAP(_ZN4absl7debian315BlockingCounter4WaitEv)(absl::BlockingCounter* counter) {
  REAL(_ZN4absl7debian315BlockingCounter4WaitEv)(counter);
  Acquire(counter);
}

}  // extern "C"
// NOLINTEND
