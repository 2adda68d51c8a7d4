// File: test/controller/fake_cluster.h
//
// A small cluster under simulated time: the fake API server, nodes, a stand-in for kube-scheduler
// (pinned pods only) and for kubelets, and as many controllers as a test wants. Everything that can
// go wrong is asked for by the test; the invariants are checked from the API server alone.
//
//   FakeCluster cluster(seed);
//   cluster.AddNodes(16, /*nodes_per_supernode=*/4);
//   cluster.StartController("a");
//   cluster.CreateJob("llama", 64);
//   EXPECT_TRUE(cluster.RunUntil([&] { return cluster.StateOf("llama") == "Running"; }));
//   EXPECT_EQ(cluster.Violations(), "");
//
// Thread-safety: none. Cost: O(pods) each 50 ms of simulated time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/executor.h"
#include "base/metrics.h"
#include "base/rng.h"
#include "controller/configuration.h"
#include "controller/control_plane.h"
#include "kube/pod.h"
#include "kube/testing/fake_api_server.h"
#include "nlohmann/json.hpp"

namespace asterism::controller {

class FakeCluster {
 public:
  explicit FakeCluster(uint64_t seed);
  ~FakeCluster();

  void AddNodes(int count, int nodes_per_supernode);
  void AddQueue(const std::string& name);
  void RemoveNode(const std::string& name);
  void SetUnschedulable(const std::string& node, bool unschedulable);

  // A controller with a name of its own; kill -9 is Kill: nothing is released, nothing is finished.
  void StartController(const std::string& name);
  void KillController(const std::string& name);
  void StopController(const std::string& name);  // SIGTERM: the Lease is given back
  ControlPlane* leader();
  base::MetricRegistry& registry(const std::string& name);

  void CreateJob(const std::string& name, int gpus, const nlohmann::json& spec_patch = {});
  void PatchJob(const std::string& name, const nlohmann::json& patch);
  void DeleteJob(const std::string& name);
  nlohmann::json Job(const std::string& name) const;  // null when absent
  std::string StateOf(const std::string& name) const;
  nlohmann::json StatusOf(const std::string& name) const;
  // Pods of the job that exist, by name.
  std::map<std::string, nlohmann::json> PodsOf(const std::string& name) const;

  // What the kubelet would report.
  void EndPods(const std::string& job, int exit_code);
  void EndPod(const std::string& pod, int exit_code);
  void set_bind_pods(bool bind) { bind_pods_ = bind; }
  // A node whose kube-scheduler refuses every pod.
  void RefuseOn(const std::string& node, const std::string& message) { refusing_[node] = message; }

  bool RunUntil(const std::function<bool()>& reached, absl::Duration limit = absl::Minutes(3));
  void Run(absl::Duration duration);

  // Empty, or what is broken: a GPU given out twice, a pod beside its pin, half a gang at rest.
  std::string Violations() const;
  std::string GangsNotWhole() const;

  kube::testing::FakeApiServer& server() { return *server_; }
  base::Rng& rng() { return rng_; }
  const base::Clock& clock() const { return clock_; }
  // Of controllers that start from now on.
  Configuration& configuration() { return configuration_; }
  base::SimExecutor& executor() { return executor_; }
  base::SimClock& clock() { return clock_; }

 private:
  struct Controller;

  void Tick();
  void ScheduleAndRunPods();

  base::Rng rng_;
  Configuration configuration_;
  base::SimClock clock_;
  base::SimExecutor executor_;
  std::unique_ptr<kube::testing::FakeApiServer> server_;
  std::map<std::string, std::unique_ptr<Controller>> controllers_;
  std::map<std::string, std::string> refusing_;
  bool bind_pods_ = true;
  int addresses_ = 0;
  std::map<std::string, kube::Pod> decoded_;  // by uid
};

}  // namespace asterism::controller
