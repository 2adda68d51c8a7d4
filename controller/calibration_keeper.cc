#include "controller/calibration_keeper.h"

#include <algorithm>
#include <compare>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "kube/resource_version.h"
#include "nlohmann/json.hpp"
#include "operator/json_fields.h"

namespace asterism::controller {
namespace {

using nlohmann::json;

absl::Status Overtaken(std::string_view key) {
  return absl::AbortedError(
      fmt::format("{} of ConfigMap {} was changed while this was worked out, and nothing was kept: "
                  "call again",
                  key, kCalibrationMap));
}

}  // namespace

CalibrationKeeper::CalibrationKeeper(Dependencies dependencies, std::string namespace_name)
    : dependencies_(std::move(dependencies)),
      namespace_name_(std::move(namespace_name)),
      informer_(
          dependencies_.source, dependencies_.executor, dependencies_.clock, dependencies_.rng,
          operators::kCalibrationMaps,
          {.namespace_name = namespace_name_,
           .field_selector = fmt::format("metadata.name={}", kCalibrationMap)},
          [](const kube::RawObject& raw) { return operators::ParseCalibrationObject(raw.bytes); },
          {.on_change =
               [this](const kube::Change<operators::CalibrationObject>& change) {
                 Take(change.after);
               },
           .on_synced = [this] { BecomeKnown(); }}),
      patience_(dependencies_.executor) {
  current_.Publish(std::make_shared<const planner::CalibrationSet>());
}

void CalibrationKeeper::Start() {
  informer_.Start();
  patience_.Start(kCalibrationPatience, [this] {
    if (!known_) {
      base::LogWarning(
          "calibrations_unknown",
          {{"configmap", fmt::format("{}/{}", namespace_name_, kCalibrationMap)},
           {"remedy",
            "the Role asterism-controller needs `list` and `watch` of it; plans are made with the "
            "shipped constants until it is read"}});
      BecomeKnown();
    }
  });
}

void CalibrationKeeper::BecomeKnown() {
  if (!std::exchange(known_, true)) {
    dependencies_.on_known();
  }
}

// From the watch, or from the answer to our own write, whichever comes first.
void CalibrationKeeper::Take(Object object) {
  if (object != nullptr && object_ != nullptr && object->meta.uid == object_->meta.uid &&
      kube::CompareResourceVersions(object->meta.resource_version, object_->meta.resource_version)
              .value_or(std::strong_ordering::greater) <= 0) {
    return;
  }
  object_ = std::move(object);
  if (object_ == nullptr) {
    told_.clear();
    Publish({});
    return;
  }
  operators::CalibrationReading reading = operators::ReadCalibrations(*object_, *current());
  for (const operators::CalibrationProblem& each : reading.problems) {
    if (std::find(told_.begin(), told_.end(), each) == told_.end()) {
      base::LogWarning(
          "calibration_ignored",
          {{"configmap", object_->meta.Key()}, {"key", each.key}, {"reason", each.reason}});
    }
  }
  told_ = std::move(reading.problems);
  Publish(std::move(reading.set));
}

void CalibrationKeeper::Publish(planner::CalibrationSet set) {
  if (set == *current()) {
    return;
  }
  auto shared = std::make_shared<const planner::CalibrationSet>(std::move(set));
  base::LogInfo("calibrations", {{"in_force", static_cast<uint64_t>(shared->size())}});
  current_.Publish(shared);
  dependencies_.on_change(std::move(shared));
}

absl::Status CalibrationKeeper::MayKeep(const CalibrationToKeep& calibration) const {
  if (!dependencies_.may_write()) {
    return absl::UnavailableError("this process leads no more: call the leader");
  }
  if (!informer_.synced()) {
    return absl::UnavailableError(fmt::format(
        "ConfigMap {} has not been read yet, and nothing was kept: call again", kCalibrationMap));
  }
  const std::shared_ptr<const planner::CalibrationSet> now = current();
  const planner::KeptCalibration* const in_force = now->Find(calibration.key);
  if ((in_force == nullptr ? 0 : in_force->version) != calibration.base_version) {
    return Overtaken(calibration.key);
  }
  return absl::OkStatus();
}

void CalibrationKeeper::Keep(CalibrationToKeep calibration,
                             absl::AnyInvocable<void(const absl::Status&)> done) {
  if (const absl::Status status = MayKeep(calibration); !status.ok()) {
    done(status);
    return;
  }
  json body = {{"apiVersion", "v1"},
               {"kind", "ConfigMap"},
               {"metadata", {{"name", kCalibrationMap}}},
               {"data", {{calibration.key, operators::WriteCalibration(calibration.value)}}}};
  auto on_reply = alive_.Wrap([this, key = calibration.key, done = std::move(done)](
                                  const absl::StatusOr<kube::Reply>& reply) mutable {
    const absl::Status status = OnKept(reply);
    done(absl::IsAborted(status) ? Overtaken(key) : status);
  });
  if (object_ == nullptr) {
    body["metadata"]["labels"]["app.kubernetes.io/name"] = "asterism";
    dependencies_.client.Create(operators::kCalibrationMaps, namespace_name_,
                                operators::DumpJson(body), {}, kube::Lane::kWrite,
                                std::move(on_reply));
  } else {
    // Refused when somebody has changed it since it was read.
    body["metadata"]["resourceVersion"] = object_->meta.resource_version;
    dependencies_.client.Patch(
        operators::kCalibrationMaps, {namespace_name_, std::string(kCalibrationMap)},
        operators::DumpJson(body), {.type = kube::PatchType::kMerge}, std::move(on_reply));
  }
}

absl::Status CalibrationKeeper::OnKept(const absl::StatusOr<kube::Reply>& reply) {
  const absl::Status& status = reply.status();
  if (absl::IsAborted(status) || absl::IsAlreadyExists(status) || absl::IsNotFound(status)) {
    return absl::AbortedError("");
  }
  if (absl::IsPermissionDenied(status)) {
    return absl::FailedPreconditionError(
        fmt::format("the controller may not write ConfigMap {}: install the chart of this version, "
                    "whose Role asterism-controller has the right",
                    kCalibrationMap));
  }
  if (!status.ok()) {
    return absl::UnavailableError(fmt::format(
        "whether ConfigMap {} was written is not known ({}): the tables_version of a plan tells",
        kCalibrationMap, base::ToStd(status.message())));
  }
  absl::StatusOr<operators::CalibrationObject> object =
      operators::ParseCalibrationObject(reply->body);
  if (object.ok()) {  // else the watch brings it
    Take(std::make_shared<const operators::CalibrationObject>(*std::move(object)));
  }
  return absl::OkStatus();
}

}  // namespace asterism::controller
