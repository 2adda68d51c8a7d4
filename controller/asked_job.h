// File: controller/asked_job.h
//
// The TrainingJob of a request that is only asked about: its name without reading it, and itself.
//
//   ASSIGN_OR_RETURN(kube::ObjectName name, ReadAskedJobName(json));
//   ASSIGN_OR_RETURN(operators::TrainingJob job, ReadAskedJob(json, name));
//
// kInvalidArgument names the field, under training_job_json, and the remedy.
//
// Thread-safety: pure. Cost: the name 10 ns a byte and no memory to speak of; the job one parse.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "kube/client.h"
#include "operator/training_job.h"

namespace asterism::controller {

// Both names are ones that an object can have.
absl::StatusOr<kube::ObjectName> ReadAskedJobName(std::string_view job_json);

// Without its status, which does not count. An error where it is not called `name`: the rights to
// ask were looked at by that.
absl::StatusOr<operators::TrainingJob> ReadAskedJob(std::string_view job_json,
                                                    const kube::ObjectName& name);

// As if the user had written another number; what follows from it follows anew.
absl::StatusOr<operators::TrainingJob> WithGpus(const operators::TrainingJob& job, int64_t gpus);

}  // namespace asterism::controller
