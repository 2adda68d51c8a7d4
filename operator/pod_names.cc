#include "operator/pod_names.h"

#include "fmt/format.h"

namespace asterism::operators {

std::string JobInstance(const kube::ObjectMeta& job) {
  return scheduler::GangInstance(job.name, job.uid);
}

std::string PodName(const kube::ObjectMeta& job, int64_t first_rank, int64_t epoch) {
  return scheduler::GangPodName(job.name, job.uid, first_rank, epoch);
}

std::string HostName(const kube::ObjectMeta& job, int64_t first_rank) {
  return fmt::format("{}-r{}", job.name, first_rank);
}

std::string HostAddress(const kube::ObjectMeta& job, int64_t first_rank) {
  return fmt::format("{}.{}.{}.svc", HostName(job, first_rank), job.name, job.namespace_name);
}

std::string KeySecretName(const kube::ObjectMeta& job) {
  return fmt::format("{}-key", JobInstance(job));
}

std::string HostFileMapName(const kube::ObjectMeta& job, int64_t pods) {
  return fmt::format("{}-hosts-{}", JobInstance(job), pods);
}

}  // namespace asterism::operators
