// File: operator/conditions.h
//
// Conditions of a TrainingJob: the closed list of types and reasons, and the one way to set one.
//
//   SetCondition(status.conditions, {.type = kPlaced, .status = "True", .reason = "Placed", ...},
//   now);
//
// lastTransitionTime moves only when the status flips (metav1.Condition). The list stays sorted.
// Thread-safety: pure. Cost: O(conditions).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "kube/object.h"

namespace asterism::operators {

inline constexpr std::string_view kAdmitted = "Admitted";
inline constexpr std::string_view kPlanned = "Planned";
inline constexpr std::string_view kPlaced = "Placed";
inline constexpr std::string_view kBound = "Bound";
inline constexpr std::string_view kRunning = "Running";
inline constexpr std::string_view kSucceeded = "Succeeded";
inline constexpr std::string_view kFailed = "Failed";
inline constexpr std::string_view kSuspended = "Suspended";
// Warnings: the job will run, but hardly as its author means it.
inline constexpr std::string_view kProgressUnreadable = "ProgressUnreadable";
inline constexpr std::string_view kCommandSuspect = "CommandSuspect";
inline constexpr std::string_view kFieldsIgnored = "FieldsIgnored";
// commit: Direct was asked for and cannot be had: kube-scheduler binds the pods.
inline constexpr std::string_view kCommitFallback = "CommitFallback";

// A reason of Planned: the ConfigMap of the model says something else since.
inline constexpr std::string_view kModelChanged = "ModelChanged";

// Why a job waits (status.waiting.reason); the words of the API.
namespace wait_reason {
inline constexpr std::string_view kQuotaExceeded = "QuotaExceeded";
inline constexpr std::string_view kNoCapacity = "NoCapacity";
inline constexpr std::string_view kFragmented = "Fragmented";
inline constexpr std::string_view kLevelUnavailable = "LevelUnavailable";
inline constexpr std::string_view kProductUnavailable = "ProductUnavailable";
inline constexpr std::string_view kBehindInQueue = "BehindInQueue";
inline constexpr std::string_view kQueueStopped = "QueueStopped";
inline constexpr std::string_view kNotAllowed = "NotAllowed";
inline constexpr std::string_view kInvalidSpec = "InvalidSpec";
inline constexpr std::string_view kInvalidTemplate = "InvalidTemplate";
inline constexpr std::string_view kPlanFailed = "PlanFailed";
inline constexpr std::string_view kBindFailed = "BindFailed";
inline constexpr std::string_view kNeverFits = "NeverFits";
}  // namespace wait_reason

struct ConditionUpdate {
  std::string_view type;
  std::string_view status;  // True, False, Unknown
  std::string_view reason;  // CamelCase, not empty
  std::string message;
  int64_t observed_generation = 0;
};

// True when something changed.
bool SetCondition(std::vector<kube::Condition>& conditions, const ConditionUpdate& update,
                  absl::Time now);

}  // namespace asterism::operators
