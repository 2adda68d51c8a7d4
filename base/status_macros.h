// File: base/status_macros.h
//
// Early return on error for functions that return absl::Status or absl::StatusOr.
//
//   RETURN_IF_ERROR(Validate(job));
//   ASSIGN_OR_RETURN(const Quantity memory, Quantity::Parse(text));
//
// The names are those of newer Abseil releases, so that an upgrade is a deletion of this file.
// Thread-safety and cost: as the expression.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define ASTERISM_CONCAT_INNER(a, b) a##b
#define ASTERISM_CONCAT(a, b) ASTERISM_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expression)                                     \
  do {                                                                  \
    if (absl::Status status_or_ok = (expression); !status_or_ok.ok()) { \
      return status_or_ok;                                              \
    }                                                                   \
  } while (false)

#define ASSIGN_OR_RETURN(target, expression) \
  ASSIGN_OR_RETURN_IMPL(ASTERISM_CONCAT(status_or_, __LINE__), target, expression)

#define ASSIGN_OR_RETURN_IMPL(result, target, expression) \
  auto result = (expression);                             \
  if (!result.ok()) {                                     \
    return std::move(result).status();                    \
  }                                                       \
  target = std::move(result).value()
