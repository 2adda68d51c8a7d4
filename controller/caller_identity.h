// File: controller/caller_identity.h
//
// Who calls: a component of Asterism by its client certificate (kSchedulerName), or a user by the
// token that the API server knows (TokenReview). Nobody else is served.
//
//   CallerIdentity identity(clock, client, {});
//   identity.Identify(credentials, [](absl::StatusOr<std::shared_ptr<const Caller>> caller) {...});
//
// kUnauthenticated: neither, or the API server does not know the token. kUnavailable: the API
// server gave no answer, so nobody knows. kResourceExhausted: more tokens came than we ask about at
// once, so that strangers cannot keep the API server busy. A token is kept as its SHA-256 only, and
// never logged.
//
// Thread-safety: core executor only. Cost: one request to the API server for each token in 10 s.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "controller/review_cache.h"
#include "kube/client.h"
#include "kube/token_bucket.h"

namespace asterism::controller {

// What a call brings along.
struct Credentials {
  // Common name of a client certificate that one of our client authorities signed; else empty.
  std::string certificate_name;
  std::string bearer_token;  // without "Bearer "; else empty
};

// As the API server knows it.
struct Caller {
  bool component = false;  // of Asterism itself: sees all
  std::string user;
  std::string uid;
  std::vector<std::string> groups;
  std::map<std::string, std::vector<std::string>> extra;
  std::string key;  // equal for equal callers
};

struct CallerIdentityOptions {
  ReviewCacheOptions reviews;
  // Tokens that are asked about at once, and then one every period.
  int new_tokens_at_once = 300;
  absl::Duration new_token_period = absl::Milliseconds(20);
};

class CallerIdentity {
 public:
  using SharedCaller = std::shared_ptr<const Caller>;
  using Done = absl::AnyInvocable<void(const absl::StatusOr<SharedCaller>&)>;

  CallerIdentity(const base::Clock& clock, kube::Client& client, CallerIdentityOptions options);

  void Identify(const Credentials& credentials, Done done);

 private:
  // A null caller: the API server does not know the token; `why` is what it says about it.
  struct Verdict {
    SharedCaller caller;
    std::string why;
  };

  void Review(const std::string& token, ReviewCache<Verdict>::Done done);
  static absl::StatusOr<Verdict> ReadVerdict(const absl::StatusOr<kube::Reply>& reply);

  kube::Client& client_;
  ReviewCache<Verdict> cache_;
  kube::TokenBucket new_tokens_;
};

}  // namespace asterism::controller
