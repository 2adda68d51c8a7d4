#include "agent/probe/measurement_feed.h"

namespace asterism::agent {
namespace {

// Without how long they took.
std::string OutcomeBytes(const v1::NodeMeasurement& measured) {
  std::string bytes;
  for (v1::ProbeOutcome outcome : measured.probes()) {
    outcome.clear_duration_nanoseconds();
    bytes += outcome.SerializeAsString() + '\n';
  }
  return bytes;
}

// One character in front tells a part that is there and empty from one that is not.
template <typename Part>
std::string PartBytes(bool has, const Part& part) {
  return has ? "+" + part.SerializeAsString() : "";
}

}  // namespace

void MeasurementFeed::Set(const v1::NodeMeasurement& measured) {
  measured_ = true;
  *known_.mutable_probes() = measured.probes();
  if (measured.has_gpus()) {
    *known_.mutable_gpus() = measured.gpus();
  }
  if (measured.has_nvlink_domain()) {
    *known_.mutable_nvlink_domain() = measured.nvlink_domain();
  }
  if (measured.has_nics()) {
    *known_.mutable_nics() = measured.nics();
  }
  if (measured.has_neighbors()) {
    *known_.mutable_neighbors() = measured.neighbors();
  }
  if (measured.has_place()) {
    *known_.mutable_place() = measured.place();
  }
  if (measured.has_numa()) {
    *known_.mutable_numa() = measured.numa();
  }
  bytes_ = {OutcomeBytes(known_),
            PartBytes(known_.has_gpus(), known_.gpus()),
            PartBytes(known_.has_nvlink_domain(), known_.nvlink_domain()),
            PartBytes(known_.has_nics(), known_.nics()),
            PartBytes(known_.has_neighbors(), known_.neighbors()),
            PartBytes(known_.has_place(), known_.place()),
            PartBytes(known_.has_numa(), known_.numa())};
}

void MeasurementFeed::WantFull() {
  full_due_ = true;
}

bool MeasurementFeed::due() const {
  return measured_ && (full_due_ || bytes_ != told_);
}

std::optional<v1::NodeMeasurement> MeasurementFeed::Take() {
  if (!due()) {
    return std::nullopt;
  }
  v1::NodeMeasurement next = known_;
  next.set_full(full_due_);
  if (!full_due_) {
    if (bytes_[1] == told_[1]) {
      next.clear_gpus();
    }
    if (bytes_[2] == told_[2]) {
      next.clear_nvlink_domain();
    }
    if (bytes_[3] == told_[3]) {
      next.clear_nics();
    }
    if (bytes_[4] == told_[4]) {
      next.clear_neighbors();
    }
    if (bytes_[5] == told_[5]) {
      next.clear_place();
    }
    if (bytes_[6] == told_[6]) {
      next.clear_numa();
    }
  }
  generation_ += bytes_ != told_ ? 1 : 0;
  next.set_generation(generation_);
  told_ = bytes_;
  full_due_ = false;
  return next;
}

}  // namespace asterism::agent
