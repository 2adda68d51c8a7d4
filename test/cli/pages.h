// File: test/cli/pages.h
//
// Pages of the controller and objects of the API server for the tests of the command line.
//
//   TestTopology page({"node", "supernode", "cluster"}, 1280, {4});
//   page.Hold(17, 8, "research/llama");  page.Fault(18);
//   TopologyTree tree = *ParseTopologyTree(page.Text());
//   json job = TestJob("llama", 512);  job["status"]["waiting"] = {...};
//
// Thread-safety: none. Cost: O(nodes x levels).
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "operator/queue.h"
#include "operator/training_job.h"

namespace asterism::cli {

class TestTopology {
 public:
  // `sizes`: domains of the level below in one domain, for the levels between node and the last.
  TestTopology(std::vector<std::string> levels, int64_t nodes, std::vector<int64_t> sizes)
      : levels_(std::move(levels)), nodes_(static_cast<size_t>(nodes)) {
    int64_t span = 1;
    spans_ = {1};
    for (const int64_t size : sizes) {
      span *= size;
      spans_.push_back(span);
    }
    while (spans_.size() < levels_.size()) {
      spans_.push_back(std::max<int64_t>(nodes, 1));
    }
  }

  void Hold(size_t node, int64_t gpus, const std::string& job) {
    nodes_[node].held += gpus;
    nodes_[node].jobs.push_back(job);
  }
  void Fault(size_t node) { nodes_[node].usable = false; }
  void Name(size_t node, std::string name) { nodes_[node].name = std::move(name); }
  void set_leading(bool leading) { leading_ = leading; }

  std::string Text() const {
    nlohmann::json page = {{"leading", leading_}, {"version", 7}, {"levels", levels_}};
    page["domains"] = nlohmann::json::array();
    for (size_t level = 0; level < levels_.size(); ++level) {
      for (size_t first = 0; first < nodes_.size(); first += Span(level)) {
        page["domains"].push_back(Domain(level, first));
      }
    }
    return page.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

 private:
  struct Node {
    int64_t held = 0;
    bool usable = true;
    std::string name;
    std::vector<std::string> jobs;
  };

  size_t Span(size_t level) const { return static_cast<size_t>(spans_[level]); }

  std::string NameOf(size_t level, size_t first) const {
    if (level == 0) {
      return nodes_[first].name.empty() ? fmt::format("gpu-{:04}", first) : nodes_[first].name;
    }
    return level + 1 == levels_.size()
               ? levels_[level]
               : fmt::format("{}{:03}", levels_[level][0], first / Span(level));
  }

  nlohmann::json Domain(size_t level, size_t first) const {
    const size_t end = std::min(first + Span(level), nodes_.size());
    int64_t total = 0;
    int64_t free = 0;
    int64_t held = 0;
    int64_t unusable = 0;
    std::vector<std::string> jobs;
    for (size_t node = first; node < end; ++node) {
      total += 8;
      held += nodes_[node].held;
      free += nodes_[node].usable ? 8 - nodes_[node].held : 0;
      unusable += nodes_[node].usable ? 0 : 1;
      jobs.insert(jobs.end(), nodes_[node].jobs.begin(), nodes_[node].jobs.end());
    }
    std::sort(jobs.begin(), jobs.end());
    jobs.erase(std::unique(jobs.begin(), jobs.end()), jobs.end());
    const size_t count = jobs.size();
    jobs.resize(std::min<size_t>(count, 10));
    const bool top = level + 1 == levels_.size();
    return {{"level", levels_[level]},
            {"name", NameOf(level, first)},
            {"parent", top ? "" : NameOf(level + 1, first / Span(level + 1) * Span(level + 1))},
            {"nodes", end - first},
            {"unusableNodes", unusable},
            {"gpus",
             {{"total", total},
              {"free", free},
              {"held", held},
              {"spare", 0},
              {"faulty", total - free - held}}},
            {"jobs", jobs},
            {"jobCount", count}};
  }

  const std::vector<std::string> levels_;
  std::vector<Node> nodes_;
  std::vector<int64_t> spans_;
  bool leading_ = true;
};

// ---- objects of the API server; created 2026-11-30T10:00:00Z ----

inline nlohmann::json TestJob(const std::string& name, int64_t gpus) {
  return {{"apiVersion", "asterism.dev/v1alpha1"},
          {"kind", "TrainingJob"},
          {"metadata",
           {{"name", name},
            {"namespace", "research"},
            {"uid", "uid-" + name},
            {"generation", 1},
            {"creationTimestamp", "2026-11-30T10:00:00Z"}}},
          {"spec", {{"queue", "research"}, {"gpus", gpus}}},
          {"status",
           {{"observedGeneration", 1},
            {"effective", {{"class", "Finetuning"}, {"gpusPerPod", 8}, {"pods", gpus / 8}}}}}};
}

inline nlohmann::json TestCondition(const std::string& type, const std::string& reason,
                                    const std::string& message) {
  return {{"type", type},
          {"status", "True"},
          {"reason", reason},
          {"lastTransitionTime", "2026-11-30T10:00:01Z"},
          {"message", message}};
}

inline nlohmann::json WaitingJob(const std::string& name, int64_t gpus, const std::string& reason,
                                 int64_t position) {
  nlohmann::json job = TestJob(name, gpus);
  job["status"]["state"] = "Admitted";
  job["status"]["placed"] = fmt::format("0/{}", gpus / 8);
  job["status"]["waiting"] = {
      {"reason", reason},
      {"message", fmt::format("{} GPUs are needed in whole nodes of 8, 448 are free", gpus)},
      {"nearestChange", "a gang of 448 GPUs would start now"},
      {"queuePosition", position}};
  return job;
}

inline nlohmann::json RunningJob(const std::string& name, int64_t supernodes) {
  nlohmann::json job = TestJob(name, supernodes * 32);
  nlohmann::json& status = job["status"];
  status["state"] = "Running";
  status["placed"] = fmt::format("{}/{}", supernodes * 4, supernodes * 4);
  status["conditions"] = {TestCondition("Placed", "Placed", ""),
                          TestCondition("Running", "Running", "")};
  status["placement"] = {{"epoch", 2}, {"digest", "d"}};
  status["placement"]["levels"] = {
      {{"level", "node"}, {"domains", supernodes * 4}, {"ringCuts", 0}, {"ringCutsMinimum", 0}},
      {{"level", "supernode"}, {"domains", supernodes}, {"ringCuts", 0}, {"ringCutsMinimum", 0}}};
  for (int64_t index = 0; index < supernodes; ++index) {
    status["placement"]["runs"].push_back(
        {{"domain", fmt::format("s{:03}", index)},
         {"nodes", fmt::format("gpu-[{:04}-{:04}]", index * 4, index * 4 + 3)},
         {"firstRank", index * 32},
         {"ranks", 32},
         {"epoch", index == 0 ? 1 : 2}});
  }
  status["timings"] = {{"queuedMilliseconds", 12},
                       {"decideMicroseconds", 71},
                       {"commitMilliseconds", 640},
                       {"startMilliseconds", 2100}};
  return job;
}

inline nlohmann::json TestQueue(const std::string& name, int64_t used, int64_t limit) {
  return {{"apiVersion", "asterism.dev/v1alpha1"},
          {"kind", "Queue"},
          {"metadata", {{"name", name}, {"uid", "uid-" + name}}},
          {"spec", {{"quotas", {{{"product", "*"}, {"guaranteed", 1024}, {"limit", limit}}}}}},
          {"status",
           {{"used", used},
            {"guaranteed", 1024},
            {"borrowed", std::max<int64_t>(0, used - 1024)},
            {"limit", limit},
            {"pending", {{"jobs", 2}, {"gpus", 1024}}},
            {"conditions", nlohmann::json::array({TestCondition("Ready", "Ready", "")})}}}};
}

inline operators::TrainingJob Parsed(const nlohmann::json& job) {
  absl::StatusOr<operators::TrainingJob> parsed = operators::ParseTrainingJob(job.dump());
  CHECK_THAT(parsed.ok(), std::string(parsed.status().message()));
  return *std::move(parsed);
}

inline operators::Queue ParsedQueue(const nlohmann::json& queue) {
  absl::StatusOr<operators::Queue> parsed = operators::ParseQueue(queue.dump());
  CHECK_THAT(parsed.ok(), std::string(parsed.status().message()));
  return *std::move(parsed);
}

inline absl::Time TestNow() {
  absl::Time now;
  std::string error;
  CHECK_THAT(absl::ParseTime(absl::RFC3339_full, "2026-11-30T10:12:00Z", &now, &error), error);
  return now;
}

}  // namespace asterism::cli
