// Pins the pods of a gang by hand: the writer that `gang-commit` compares the controller with. It
// makes the same bodies (operators::PodBuilder) and sends them through the same client in the same
// way, so the comparison is about everything else.
//
//   pinned_pods --kubeconfig FILE --job JOB.json --nodes NAMES.txt --scheduler default-scheduler
//
// JOB.json is a TrainingJob as the API server keeps it; NAMES.txt holds a node a line, in rank
// order. Prints one JSON object when every write has been answered; exit code 1 when one failed.
#include <sys/resource.h>

#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/blocking_counter.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/rng.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "kube/curl_http_client.h"
#include "kube/http_api_client.h"
#include "kube/kubeconfig.h"
#include "operator/gang_shape.h"
#include "operator/pod_builder.h"
#include "operator/training_job.h"

ABSL_FLAG(std::string, kubeconfig, "", "whose rights are used");
ABSL_FLAG(std::string, job, "", "file with a TrainingJob as JSON");
ABSL_FLAG(std::string, nodes, "", "file with node names, one a line");
ABSL_FLAG(std::string, scheduler, "default-scheduler", "spec.schedulerName of the pods");

namespace asterism {
namespace {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!(text << file.rdbuf())) {
    return absl::NotFoundError(fmt::format("cannot read \"{}\"", path));
  }
  return text.str();
}

// One body a node.
absl::StatusOr<std::vector<std::string>> MakeBodies(const operators::TrainingJob& job) {
  ASSIGN_OR_RETURN(const std::string names, ReadFile(absl::GetFlag(FLAGS_nodes)));
  std::istringstream lines(names);
  std::vector<std::string> nodes;
  for (std::string node; std::getline(lines, node);) {
    nodes.push_back(node);
  }
  if (nodes.empty() || job.spec.gpus % static_cast<int64_t>(nodes.size()) != 0) {
    return absl::InvalidArgumentError(
        fmt::format("{} GPUs do not spread evenly over {} nodes", job.spec.gpus, nodes.size()));
  }
  ASSIGN_OR_RETURN(const operators::GangShape shape,
                   operators::ShapeOf(job.spec, job.spec.gpus / static_cast<int64_t>(nodes.size()),
                                      operators::JobClass::kFinetuning));
  ASSIGN_OR_RETURN(
      const operators::PodBuilder builder,
      operators::PodBuilder::Make(job, shape, {.scheduler_name = absl::GetFlag(FLAGS_scheduler)}));
  std::vector<std::string> bodies;
  for (size_t i = 0; i < nodes.size(); ++i) {
    bodies.push_back(
        builder.PodBody({.first_rank = static_cast<int64_t>(i) * shape.processes_per_pod,
                         .node = nodes[i],
                         .epoch = 1,
                         .domain = fmt::format("sn-{:04}", i / 4)}));
  }
  return bodies;
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

absl::Status Run() {
  const base::SystemClock clock;
  kube::KubeconfigOptions options = kube::KubeconfigOptions::FromEnvironment();
  options.path = absl::GetFlag(FLAGS_kubeconfig);
  ASSIGN_OR_RETURN(const kube::ApiConfig api, kube::LoadApiConfig(clock, options));
  ASSIGN_OR_RETURN(const std::string text, ReadFile(absl::GetFlag(FLAGS_job)));
  ASSIGN_OR_RETURN(const operators::TrainingJob job, operators::ParseTrainingJob(text));
  ASSIGN_OR_RETURN(std::vector<std::string> bodies, MakeBodies(job));
  const size_t count = bodies.size();
  size_t bytes = 0;
  for (const std::string& body : bodies) {
    bytes += body.size();
  }

  kube::CurlHttpClient http(kube::CurlOptions::From(api));
  base::ThreadExecutor executor("writer");
  auto client = std::make_unique<kube::HttpApiClient>(executor, base::Rng(1), http, api,
                                                      kube::HttpApiClientOptions{});
  absl::BlockingCounter answers(static_cast<int>(count));
  absl::Status failure;  // of the executor until all answers are there
  const double cpu_before = CpuSeconds();
  const base::SteadyTime begin = clock.SteadyNow();
  executor.Post([&] {
    for (std::string& body : bodies) {
      client->Create(kube::kPods, job.meta.namespace_name, std::move(body), {}, kube::Lane::kWrite,
                     [&](const absl::StatusOr<kube::Reply>& reply) {
                       failure.Update(reply.status());
                       answers.DecrementCount();
                     });
    }
  });
  answers.Wait();
  const base::SteadyTime end = clock.SteadyNow();
  const double cpu = CpuSeconds() - cpu_before;
  executor.Stop();
  client.reset();
  RETURN_IF_ERROR(failure);
  const auto pods = static_cast<double>(count);
  std::cout << fmt::format(
      R"({{"pods":{},"firstWriteSeconds":{:.6f},"seconds":{:.6f},"cpuMicrosecondsPerPod":{:.1f},)"
      R"("bytesPerPod":{}}})"
      "\n",
      count, static_cast<double>(begin.nanos) * 1e-9, absl::ToDoubleSeconds(end - begin),
      cpu * 1e6 / pods, bytes / count);
  return absl::OkStatus();
}

}  // namespace
}  // namespace asterism

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  if (const absl::Status status = asterism::Run(); !status.ok()) {
    std::cerr << "pinned_pods: " << status.message() << "\n";
    return 1;
  }
  return 0;
}
