// File: operator/job_metrics.h
//
// Metrics of the operator, declared once.
//
//   JobMetrics metrics(registry);  metrics.decisions.With({"placed"}).Add();
//
// Thread-safety: yes. Cost: see base/metrics.h.
#pragma once

#include "base/metrics.h"

namespace asterism::operators {

struct JobMetrics {
  explicit JobMetrics(base::MetricRegistry& registry)
      : decisions(registry.AddCounter("asterism_gang_decisions_total",
                                      "Answers of the placement engine.", {"outcome"})),
        decide_seconds(registry.AddHistogram("asterism_gang_decide_seconds",
                                             "Time of one placement decision.")),
        commit_seconds(registry.AddHistogram("asterism_gang_commit_seconds",
                                             "From the decision to the last bind of a gang.")),
        start_seconds(registry.AddHistogram("asterism_gang_start_seconds",
                                            "From the last bind until all pods of a gang run.")),
        queue_jobs(registry.AddGauge("asterism_queue_jobs",
                                     "Jobs that wait, by traffic class and by the reason in "
                                     "status.waiting.",
                                     {"class", "reason"})),
        queue_oldest_seconds(registry.AddGauge("asterism_queue_oldest_seconds",
                                               "How long the job that waits longest has waited.",
                                               {"class", "reason"})),
        jobs(registry.AddGauge("asterism_jobs", "TrainingJobs by state.", {"state"})),
        pod_writes(registry.AddCounter("asterism_pod_writes_total",
                                       "Pod creates and deletes by result.", {"verb", "result"})),
        status_writes(registry.AddCounter("asterism_status_writes_total",
                                          "Writes of TrainingJob status by result.", {"result"})),
        withdrawn(registry.AddCounter("asterism_gangs_withdrawn_total",
                                      "Gangs taken back whole after they were placed.",
                                      {"reason"})),
        restarts(registry.AddCounter("asterism_gang_restarts_total", "Restarts by first cause.",
                                     {"reason"})),
        moves(registry.AddCounter("asterism_block_moves_total",
                                  "Rank blocks that found another home before they were bound.")),
        plans(registry.AddCounter("asterism_plans_total",
                                  "Answers of the planner to the operator, by the reason of the "
                                  "condition Planned.",
                                  {"reason"})),
        plan_seconds(registry.AddHistogram("asterism_plan_seconds",
                                           "From asking the planner for a job's plan to its "
                                           "answer.")) {}

  base::CounterFamily& decisions;
  base::HistogramFamily& decide_seconds;
  base::HistogramFamily& commit_seconds;
  base::HistogramFamily& start_seconds;
  base::GaugeFamily& queue_jobs;
  base::GaugeFamily& queue_oldest_seconds;
  base::GaugeFamily& jobs;
  base::CounterFamily& pod_writes;
  base::CounterFamily& status_writes;
  base::CounterFamily& withdrawn;
  base::CounterFamily& restarts;
  base::CounterFamily& moves;
  base::CounterFamily& plans;
  base::HistogramFamily& plan_seconds;
};

}  // namespace asterism::operators
