#include "cli/cluster_objects.h"

#include "base/status_macros.h"
#include "base/strings.h"
#include "cli/near_names.h"
#include "cli/styled_text.h"
#include "fmt/format.h"
#include "kube/decoder.h"
#include "kube/json_split.h"
#include "kube/resource_path.h"
#include "nlohmann/json.hpp"
#include "operator/conditions.h"

namespace asterism::cli {
namespace {

using operators::kQueues;
using operators::kTrainingJobs;
using operators::Queue;
using operators::TrainingJob;

std::string PluralOf(const kube::ResourceType& type) {
  return fmt::format("{}.{}", type.plural, type.group);
}

std::string Where(std::string_view namespace_name) {
  return namespace_name.empty() ? std::string(" in all namespaces")
                                : fmt::format(" in namespace \"{}\"", namespace_name);
}

// The API server answers 404 to a list only where it does not know the kind.
absl::Status KindMissing(const ServerSession& session) {
  return absl::FailedPreconditionError(
      fmt::format("the cluster at {} does not know asterism.dev/v1alpha1: install Asterism there "
                  "(docs/operations.md), or choose another cluster with --context",
                  Escaped(session.server())));
}

template <typename Object>
absl::StatusOr<std::vector<Object>> ReadList(ServerSession& session, const kube::ResourceType& type,
                                             std::string_view namespace_name,
                                             absl::StatusOr<Object> (*parse)(std::string_view),
                                             void (*explain)(Object&, std::string)) {
  absl::StatusOr<std::string> body = session.Get(kube::CollectionPath(type, namespace_name));
  if (absl::IsNotFound(body.status())) {
    return KindMissing(session);
  }
  if (!body.ok()) {
    return ApiProblem(
        session, body.status(),
        fmt::format("list {}{}", PluralOf(type), type.namespaced ? Where(namespace_name) : ""));
  }
  const auto unreadable = [&](const absl::Status& status) {
    return absl::DataLossError(fmt::format("cannot read a {} that {} sent: {}", type.kind,
                                           Escaped(session.server()),
                                           Escaped(base::ToStd(status.message()))));
  };
  absl::StatusOr<kube::JsonList> list = kube::SplitJsonList(*body);
  if (!list.ok()) {
    return unreadable(list.status());
  }
  std::vector<Object> objects;
  for (const std::string_view item : list->items) {
    absl::StatusOr<Object> object = parse(item);
    if (object.ok()) {
      objects.push_back(*std::move(object));
      continue;
    }
    // One that nobody can read stands in the list with its name, and the others beside it.
    absl::StatusOr<kube::ObjectMeta> meta = kube::DecodeMeta({kube::Encoding::kJson, item});
    if (!meta.ok()) {
      return unreadable(object.status());
    }
    Object& placeholder = objects.emplace_back();
    placeholder.meta = *std::move(meta);
    explain(placeholder, std::string(object.status().message()));
  }
  return objects;
}

template <typename Object>
std::vector<std::string> NamesOf(const std::vector<Object>& objects) {
  std::vector<std::string> names;
  names.reserve(objects.size());
  for (const Object& object : objects) {
    names.push_back(object.meta.name);
  }
  return names;
}

}  // namespace

absl::Status ApiProblem(const ServerSession& session, const absl::Status& status,
                        std::string_view what) {
  const std::string server = Escaped(session.server());
  const std::string message = Escaped(base::ToStd(status.message()));
  const bool answered = kube::GetErrorDetails(status).http_code != 0;
  std::string text;
  if (absl::IsPermissionDenied(status)) {
    text = fmt::format(
        "you may not {}: {} (ask for the ClusterRole asterism-view, bound by a "
        "ClusterRoleBinding where it is about Queues or all namespaces)",
        what, message);
  } else if (absl::IsUnauthenticated(status)) {
    text = fmt::format(
        "{} does not know who you are: log in again, or choose another user with "
        "--context or --kubeconfig",
        server);
  } else if (!answered && (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status))) {
    text = fmt::format(
        "the API server {} does not answer: {} (check the address with kubectl "
        "cluster-info, or choose another cluster with --context)",
        server, message);
  } else {
    text = fmt::format(
        "cannot {}: {} (kubectl get --raw /readyz shows whether the API server is "
        "well)",
        what, message);
  }
  return absl::Status(status.code(), text);
}

absl::StatusOr<TrainingJob> ReadJob(ServerSession& session, const kube::ObjectName& name) {
  absl::StatusOr<std::string> body = session.Get(kube::ObjectPath(kTrainingJobs, name, ""));
  if (body.ok()) {
    return operators::ParseTrainingJob(*body);
  }
  if (!absl::IsNotFound(body.status())) {
    return ApiProblem(session, body.status(),
                      fmt::format("get {}{}", PluralOf(kTrainingJobs), Where(name.namespace_name)));
  }
  std::string meant;
  const absl::StatusOr<std::vector<TrainingJob>> others = ReadJobs(session, name.namespace_name);
  if (others.ok()) {
    meant = DidYouMean(name.name, NamesOf(*others));
  } else if (absl::IsFailedPrecondition(others.status())) {
    return others.status();
  }
  return absl::NotFoundError(
      fmt::format("there is no TrainingJob \"{}\" in namespace \"{}\"{} (kubectl get trainingjobs "
                  "-A lists all; "
                  "-n chooses another namespace)",
                  Escaped(name.name), Escaped(name.namespace_name), meant));
}

absl::StatusOr<std::vector<TrainingJob>> ReadJobs(ServerSession& session,
                                                  std::string_view namespace_name) {
  return ReadList<TrainingJob>(session, kTrainingJobs, namespace_name, &operators::ParseTrainingJob,
                               [](TrainingJob& job, std::string why) {
                                 job.status.state = "Pending";
                                 job.status.waiting.reason = operators::wait_reason::kInvalidSpec;
                                 job.status.waiting.message = std::move(why);
                               });
}

absl::StatusOr<Queue> ReadQueue(ServerSession& session, std::string_view name) {
  absl::StatusOr<std::string> body =
      session.Get(kube::ObjectPath(kQueues, {"", std::string(name)}, ""));
  if (body.ok()) {
    return operators::ParseQueue(*body);
  }
  if (absl::IsNotFound(body.status())) {
    return absl::NotFoundError(fmt::format("there is no Queue \"{}\"", Escaped(name)));
  }
  return ApiProblem(session, body.status(), fmt::format("get {}", PluralOf(kQueues)));
}

absl::StatusOr<std::vector<Queue>> ReadQueues(ServerSession& session) {
  return ReadList<Queue>(
      session, kQueues, "", &operators::ParseQueue, [](Queue& queue, std::string why) {
        nlohmann::json ready = {{"type", "Ready"},
                                {"status", "False"},
                                {"reason", "Unreadable"},
                                {"message", std::move(why)}};
        nlohmann::json status;
        status["conditions"].push_back(std::move(ready));
        queue.status_json = status.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      });
}

}  // namespace asterism::cli
