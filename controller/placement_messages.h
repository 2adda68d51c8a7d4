// File: controller/placement_messages.h
//
// Placements, decisions and jobs as messages of asterism.v1; ledger_message.h has the ledger.
//
//   v1::Decision decision;
//   FillDecision(answer, decision);
//
// Thread-safety: pure. Cost: about 200 ns a node of a placement.
#pragma once

#include <cstdint>

#include "operator/placement_question.h"
#include "operator/training_job.h"

namespace asterism::v1 {
class Decision;
class ExplainResponse;
}  // namespace asterism::v1

namespace asterism::controller {

void FillDecision(const operators::PlacementAnswer& answer, v1::Decision& decision);

// `status`: the operator's own, newest copy. `queue_position`: 0 when the job is not in the queue.
void FillExplanation(const operators::TrainingJob& job, const operators::TrainingJobStatus& status,
                     int64_t queue_position, v1::ExplainResponse& response);

}  // namespace asterism::controller
