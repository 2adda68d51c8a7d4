// File: base/check.h
//
// Assertions for programmer errors (never for bad input, which is an absl::Status).
//
//   CHECK_THAT(free >= 0, "free GPUs of a node fell below zero");
//   DCHECK_THAT(...)       the same, gone in release builds (NDEBUG)
//   BUG_IF(cond, "message") logs and counts, returns cond, and goes on: for "cannot be, and we can
//   go on"
//
// A failed CHECK_THAT prints file, line, condition and message to stderr and aborts.
// Thread-safety: yes. Cost: one branch.
#pragma once

#include <string_view>

namespace asterism::base {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view message);
bool ReportBug(const char* file, int line, const char* condition, std::string_view message);

}  // namespace asterism::base

#define CHECK_THAT(condition, message)                                        \
  do {                                                                        \
    if (!(condition)) [[unlikely]] {                                          \
      ::asterism::base::CheckFailed(__FILE__, __LINE__, #condition, message); \
    }                                                                         \
  } while (false)

#ifdef NDEBUG
#define DCHECK_THAT(condition, message) \
  do {                                  \
  } while (false)
#else
#define DCHECK_THAT(condition, message) CHECK_THAT(condition, message)
#endif

#define BUG_IF(condition, message) \
  ((condition) && ::asterism::base::ReportBug(__FILE__, __LINE__, #condition, message))
