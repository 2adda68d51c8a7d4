// File: controller/access_review.h
//
// What a caller may do, by the API server's own rules (SubjectAccessReview): who may read a
// TrainingJob with kubectl may have it explained, and nobody else.
//
//   AccessReview access(clock, client, {});
//   access.Review(caller, {.verb = "get", .namespace_name = "research", .name = "llama"},
//                 [](const absl::Status& status) { ... });
//
// kPermissionDenied names what is missing and what would give it. kUnavailable: the API server gave
// no answer, so nobody knows. kResourceExhausted: the caller, or all callers, asked about more
// rights than the API server is to be asked about for them. Components of Asterism may do
// everything.
//
// Thread-safety: core executor only; `done` may be called at once. Cost: one request to the API
// server for each caller and right in 10 s.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "controller/caller_identity.h"
#include "controller/review_cache.h"
#include "kube/client.h"
#include "kube/token_bucket.h"

namespace asterism::controller {

// A verb on a kind.
struct AccessRight {
  std::string verb;                    // get, list, create, update
  std::string group = "asterism.dev";  // empty: core
  std::string resource = "trainingjobs";
  std::string namespace_name;  // empty: in all namespaces, or a cluster-scoped kind
  std::string name;            // empty: any
};

struct AccessReviewOptions {
  ReviewCacheOptions cache;
  // New questions of one caller: so many at once (one for each namespace that WatchQueue and
  // GetLedger ask about, and some), then one every period, which keeps up with a stream.
  int caller_at_once = 300;
  absl::Duration caller_period = absl::Milliseconds(20);
  // Of all callers together.
  int all_at_once = 1200;
  absl::Duration all_period = absl::Milliseconds(5);
};

class AccessReview {
 public:
  using SharedCaller = std::shared_ptr<const Caller>;
  using Done = absl::AnyInvocable<void(const absl::Status&)>;

  AccessReview(const base::Clock& clock, kube::Client& client, AccessReviewOptions options);

  void Review(const SharedCaller& caller, const AccessRight& access, Done done);
  // One after another; ends with the first that is not allowed.
  void ReviewAll(const SharedCaller& caller, std::vector<AccessRight> accesses, Done done);

 private:
  void ReviewFrom(const SharedCaller& caller,
                  std::shared_ptr<const std::vector<AccessRight>> accesses, size_t next, Done done);
  void Ask(const Caller& caller, const AccessRight& access, ReviewCache<bool>::Done done);
  // Whether one more question may be asked for the caller.
  bool MayAsk(const std::string& caller);
  static absl::StatusOr<bool> ReadAnswer(const absl::StatusOr<kube::Reply>& reply);

  const base::Clock& clock_;
  kube::Client& client_;
  const AccessReviewOptions options_;
  ReviewCache<bool> cache_;
  kube::TokenBucket all_;
  std::map<std::string, kube::TokenBucket> callers_;  // by key; those that are full may be missing
};

}  // namespace asterism::controller
