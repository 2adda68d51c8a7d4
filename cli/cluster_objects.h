// File: cli/cluster_objects.h
//
// TrainingJobs and Queues from the API server, with errors for people: each names what could not be
// read and what to do.
//
//   ASSIGN_OR_RETURN(const TrainingJob job, ReadJob(session, {"research", "llama"}));
//
// Thread-safety: none. Cost: one request, two where a job is missing (to name near ones). A list
// of 1,000 jobs takes about 100 ms to read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/server_session.h"
#include "kube/client.h"
#include "operator/queue.h"
#include "operator/training_job.h"

namespace asterism::cli {

absl::StatusOr<operators::TrainingJob> ReadJob(ServerSession& session,
                                               const kube::ObjectName& name);
// An empty namespace: of all.
absl::StatusOr<std::vector<operators::TrainingJob>> ReadJobs(ServerSession& session,
                                                             std::string_view namespace_name);
absl::StatusOr<operators::Queue> ReadQueue(ServerSession& session, std::string_view name);
absl::StatusOr<std::vector<operators::Queue>> ReadQueues(ServerSession& session);

// An error of the API server in one line with the way out. `what` is what was asked for:
// "list trainingjobs.asterism.dev in namespace \"research\"".
absl::Status ApiProblem(const ServerSession& session, const absl::Status& status,
                        std::string_view what);

}  // namespace asterism::cli
