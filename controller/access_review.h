// File: controller/access_review.h
//
// What a caller may do, by the API server's own rules (SubjectAccessReview): who may read a
// TrainingJob with kubectl may have it explained, and nobody else.
//
//   AccessReview access(clock, client, {});
//   access.Review(caller, {.verb = "get", .namespace_name = "research", .name = "llama"},
//                 [](const absl::Status& status) { ... });
//
// kPermissionDenied names what is missing. kUnavailable: the API server gave no answer, so nobody
// knows. Components of Asterism may do everything.
//
// Thread-safety: core executor only; `done` may be called at once. Cost: one request to the API
// server for each caller and right in 10 s.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/clock.h"
#include "controller/caller_identity.h"
#include "controller/review_cache.h"
#include "kube/client.h"

namespace asterism::controller {

// A verb on a kind of asterism.dev.
struct AccessRight {
  std::string verb;  // get, list, create
  std::string resource = "trainingjobs";
  std::string namespace_name;  // empty: in all namespaces, or a cluster-scoped kind
  std::string name;            // empty: any
};

class AccessReview {
 public:
  using SharedCaller = std::shared_ptr<const Caller>;
  using Done = absl::AnyInvocable<void(const absl::Status&)>;

  AccessReview(const base::Clock& clock, kube::Client& client, ReviewCacheOptions options);

  void Review(const SharedCaller& caller, const AccessRight& access, Done done);
  // One after another; ends with the first that is not allowed.
  void ReviewAll(const SharedCaller& caller, std::vector<AccessRight> accesses, Done done);

 private:
  void ReviewFrom(const SharedCaller& caller,
                  std::shared_ptr<const std::vector<AccessRight>> accesses, size_t next, Done done);
  void Ask(const Caller& caller, const AccessRight& access, ReviewCache<bool>::Done done);
  static absl::StatusOr<bool> ReadAnswer(const absl::StatusOr<kube::Reply>& reply);

  kube::Client& client_;
  ReviewCache<bool> cache_;
};

}  // namespace asterism::controller
