// File: controller/calibration_keeper.h
//
// What calibration has found on this cluster: read from the ConfigMap kCalibrationMap in the
// controller's namespace, and written there (operator/calibration_object.h says in which form).
//
//   CalibrationKeeper keeper({clock, executor, rng, client, source, may_write, on_change,
//   on_known},
//                            "asterism-system");
//   executor.Post([&] { keeper.Start(); });
//   keeper.current()->Find("H100.MegatronLM")
//   keeper.Keep(calibration, [](const absl::Status& status) { ... });
//
// Every process watches the object, so a leader begins with what its predecessor kept. A value that
// cannot be used is left alone with a warning that names key and reason, and what the process had
// for that key before stays in force.
//
// Keep writes one key, and only over what it was worked out from: kAborted says that somebody else
// was faster, and nothing is written. kUnavailable: this process does not lead, has not read the
// object yet, or does not know whether the write has arrived.
//
// Thread-safety: on the executor, but for current(). Cost: one watch of one object; one request a
// Keep.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/rng.h"
#include "base/snapshot.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "kube/watch_source.h"
#include "operator/calibration_object.h"
#include "planner/calibration_set.h"

namespace asterism::controller {

inline constexpr std::string_view kCalibrationMap = "asterism-planner-calibration";
// Without the object for so long (nobody may read it, say) plans are made without it.
inline constexpr absl::Duration kCalibrationPatience = absl::Seconds(5);

struct CalibrationToKeep {
  std::string key;
  // In force when it was worked out; 0: none.
  int64_t base_version = 0;
  operators::CalibrationValue value;
};

class CalibrationKeeper {
 public:
  struct Dependencies {
    const base::Clock& clock;
    base::Executor& executor;
    base::Rng rng;
    kube::Client& client;
    kube::WatchSource& source;
    std::function<bool()> may_write;
    std::function<void(std::shared_ptr<const planner::CalibrationSet>)> on_change;
    std::function<void()> on_known;  // once known() has become true
  };

  CalibrationKeeper(Dependencies dependencies, std::string namespace_name);

  void Start();
  // The object, or that there is none, has been read; or it could not be for kCalibrationPatience.
  bool known() const { return known_; }
  // Never null; from any thread.
  std::shared_ptr<const planner::CalibrationSet> current() const { return current_.Load(); }
  void Keep(CalibrationToKeep calibration, absl::AnyInvocable<void(const absl::Status&)> done);

  const kube::Informer<operators::CalibrationObject>& informer() const { return informer_; }
  const std::string& namespace_name() const { return namespace_name_; }

 private:
  using Object = kube::Shared<operators::CalibrationObject>;

  void BecomeKnown();
  void Take(Object object);
  void Publish(planner::CalibrationSet set);
  absl::Status MayKeep(const CalibrationToKeep& calibration) const;
  absl::Status OnKept(const absl::StatusOr<kube::Reply>& reply);

  const Dependencies dependencies_;
  const std::string namespace_name_;
  bool known_ = false;
  Object object_;  // the newest that is known; null: there is none
  std::vector<operators::CalibrationProblem> told_;
  base::SnapshotCell<planner::CalibrationSet> current_;
  kube::Informer<operators::CalibrationObject> informer_;
  base::OwnedTimer patience_;
  base::Alive alive_;
};

}  // namespace asterism::controller
