#include "controller/access_review.h"

#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "operator/training_job.h"

namespace asterism::controller {
namespace {

using nlohmann::json;

constexpr kube::ResourceType kSubjectAccessReviews{"authorization.k8s.io", "v1",
                                                   "subjectaccessreviews", "SubjectAccessReview",
                                                   /*namespaced=*/false,   /*protobuf=*/false};

// More are known only while as many ask.
constexpr size_t kCallersKept = 1024;

absl::Status Denied(const Caller& caller, const AccessRight& access) {
  const bool everywhere = access.namespace_name.empty();
  const std::string where = everywhere ? std::string("in the whole cluster")
                                       : fmt::format("in namespace \"{}\"", access.namespace_name);
  return absl::PermissionDeniedError(fmt::format(
      "\"{}\" may not {} {}{}{} {}: ask for a {} with that verb, or call with another token",
      caller.user, access.verb, access.resource, access.group.empty() ? "" : ".", access.group,
      where, everywhere ? "ClusterRole and a ClusterRoleBinding" : "Role"));
}

std::string ReviewKey(const Caller& caller, const AccessRight& access) {
  // None of them can hold a line break that the API server would take for a name.
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", caller.key, access.verb, access.group,
                     access.resource, access.namespace_name, access.name);
}

}  // namespace

AccessReview::AccessReview(const base::Clock& clock, kube::Client& client,
                           AccessReviewOptions options)
    : clock_(clock),
      client_(client),
      options_(options),
      cache_(clock, options.cache),
      all_(clock, options.all_at_once, options.all_period) {}

bool AccessReview::MayAsk(const std::string& caller) {
  if (callers_.size() >= kCallersKept) {
    for (auto next = callers_.begin(); next != callers_.end();) {
      next = next->second.full() ? callers_.erase(next) : std::next(next);
    }
  }
  const auto bucket =
      callers_.try_emplace(caller, clock_, options_.caller_at_once, options_.caller_period);
  return bucket.first->second.Take() && all_.Take();
}

void AccessReview::Review(const SharedCaller& caller, const AccessRight& access, Done done) {
  if (caller->component) {
    done(absl::OkStatus());
    return;
  }
  cache_.Get(
      ReviewKey(*caller, access),
      [&](ReviewCache<bool>::Done answer) { Ask(*caller, access, std::move(answer)); },
      [caller, access, done = std::move(done)](const absl::StatusOr<bool>& allowed) mutable {
        done(!allowed.ok() ? allowed.status()
             : *allowed    ? absl::OkStatus()
                           : Denied(*caller, access));
      });
}

void AccessReview::ReviewAll(const SharedCaller& caller, std::vector<AccessRight> accesses,
                             Done done) {
  ReviewFrom(caller, std::make_shared<const std::vector<AccessRight>>(std::move(accesses)), 0,
             std::move(done));
}

void AccessReview::ReviewFrom(const SharedCaller& caller,
                              std::shared_ptr<const std::vector<AccessRight>> accesses, size_t next,
                              Done done) {
  if (next == accesses->size()) {
    done(absl::OkStatus());
    return;
  }
  Review(
      caller, (*accesses)[next],
      [this, caller, accesses, next, done = std::move(done)](const absl::Status& status) mutable {
        if (!status.ok()) {
          done(status);
          return;
        }
        ReviewFrom(caller, accesses, next + 1, std::move(done));
      });
}

void AccessReview::Ask(const Caller& caller, const AccessRight& access,
                       ReviewCache<bool>::Done done) {
  if (!MayAsk(caller.key)) {
    done(absl::ResourceExhaustedError(
        "too many rights are asked about at this moment: call again later, about fewer jobs and "
        "namespaces"));
    return;
  }
  json attributes = {{"verb", access.verb},
                     {"group", access.group},
                     {"version", access.group.empty() ? "v1" : operators::kTrainingJobs.version},
                     {"resource", access.resource}};
  if (!access.namespace_name.empty()) {
    attributes["namespace"] = access.namespace_name;
  }
  if (!access.name.empty()) {
    attributes["name"] = access.name;
  }
  json spec = {{"user", caller.user},
               {"groups", caller.groups},
               {"extra", caller.extra},
               {"resourceAttributes", attributes}};
  if (!caller.uid.empty()) {
    spec["uid"] = caller.uid;
  }
  const json body = {
      {"apiVersion", "authorization.k8s.io/v1"}, {"kind", "SubjectAccessReview"}, {"spec", spec}};
  client_.Create(kSubjectAccessReviews, "",
                 body.dump(-1, ' ', false, json::error_handler_t::replace), {}, kube::Lane::kWatch,
                 [done = std::move(done)](const absl::StatusOr<kube::Reply>& reply) mutable {
                   done(ReadAnswer(reply));
                 });
}

absl::StatusOr<bool> AccessReview::ReadAnswer(const absl::StatusOr<kube::Reply>& reply) {
  if (!reply.ok()) {
    base::LogWarning("access_review_failed",
                     {{"code", absl::StatusCodeToString(reply.status().code())},
                      {"remedy",
                       "the ClusterRole asterism-controller needs `create "
                       "subjectaccessreviews`, and the API server must answer"}});
    return absl::UnavailableError(
        "the API server did not answer what the caller may do (SubjectAccessReview): call again");
  }
  const json object = json::parse(reply->body, nullptr, /*allow_exceptions=*/false);
  const auto status = object.is_object() ? object.find("status") : object.end();
  if (!object.is_object() || status == object.end() || !status->is_object()) {
    return absl::UnavailableError(
        "the API server sent a SubjectAccessReview without a status: call again");
  }
  const auto allowed = status->find("allowed");
  const auto denied = status->find("denied");
  return allowed != status->end() && *allowed == true &&
         (denied == status->end() || *denied != true);
}

}  // namespace asterism::controller
