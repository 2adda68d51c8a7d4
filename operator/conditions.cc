#include "operator/conditions.h"

#include <algorithm>

#include "base/check.h"

namespace asterism::operators {
namespace {

// Limit of metav1.Condition.
constexpr size_t kMessageBytesMax = 32'768;

}  // namespace

bool SetCondition(std::vector<kube::Condition>& conditions, const ConditionUpdate& update,
                  absl::Time now) {
  CHECK_THAT(!update.reason.empty(), "a condition needs a reason");
  const auto place = std::lower_bound(conditions.begin(), conditions.end(), update.type,
                                      [](const kube::Condition& condition, std::string_view type) {
                                        return condition.type < type;
                                      });
  kube::Condition next{.type = std::string(update.type),
                       .status = std::string(update.status),
                       .observed_generation = update.observed_generation,
                       .last_transition_time = absl::FromUnixSeconds(absl::ToUnixSeconds(now)),
                       .reason = std::string(update.reason),
                       .message = update.message.substr(0, kMessageBytesMax)};
  if (place == conditions.end() || place->type != update.type) {
    conditions.insert(place, std::move(next));
    return true;
  }
  if (place->status == next.status) {
    next.last_transition_time = place->last_transition_time;
  }
  if (*place == next) {
    return false;
  }
  *place = std::move(next);
  return true;
}

}  // namespace asterism::operators
