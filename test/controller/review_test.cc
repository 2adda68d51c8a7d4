#include <memory>
#include <string>
#include <vector>

#include "base/executor.h"
#include "controller/access_review.h"
#include "controller/caller_identity.h"
#include "controller/visible_namespaces.h"
#include "fake_reviews.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace asterism::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ReviewTest : public ::testing::Test {
 protected:
  ReviewTest()
      : executor_(clock_),
        server_(clock_, executor_, {}),
        reviews_(server_),
        identity_(clock_, server_, {}),
        access_(clock_, server_,
                {.cache = {.entries_max = 8},
                 .caller_at_once = 60,
                 .all_at_once = 100,
                 .all_period = absl::Seconds(1)}) {
    reviews_.AddUser("token-of-ada", "ada", {"team-a", "staff"});
  }

  absl::StatusOr<std::shared_ptr<const Caller>> Identify(const Credentials& credentials) {
    absl::StatusOr<std::shared_ptr<const Caller>> result = absl::UnknownError("no answer");
    identity_.Identify(credentials, [&](const auto& caller) { result = caller; });
    executor_.RunFor(absl::Milliseconds(50));
    return result;
  }
  std::shared_ptr<const Caller> Ada() { return *Identify({.bearer_token = "token-of-ada"}); }
  absl::Status Review(const std::shared_ptr<const Caller>& caller, const AccessRight& right) {
    absl::Status result = absl::UnknownError("no answer");
    access_.Review(caller, right, [&](const absl::Status& status) { result = status; });
    executor_.RunFor(absl::Milliseconds(50));
    return result;
  }
  absl::StatusOr<VisibleNamespaces> Visible(std::set<std::string> candidates) {
    absl::StatusOr<VisibleNamespaces> result = absl::UnknownError("no answer");
    const auto caller = Ada();
    FindVisibleNamespaces(access_, caller, std::move(candidates),
                          [&](const auto& visible) { result = visible; });
    executor_.RunFor(absl::Milliseconds(50));
    return result;
  }

  base::SimClock clock_;
  base::SimExecutor executor_;
  kube::testing::FakeApiServer server_;
  FakeReviews reviews_;
  CallerIdentity identity_;
  AccessReview access_;
};

TEST_F(ReviewTest, ATokenNamesItsUser) {
  const auto ada = Ada();
  EXPECT_EQ(ada->user, "ada");
  EXPECT_EQ(ada->uid, "uid-of-ada");
  EXPECT_THAT(ada->groups, ElementsAre("team-a", "staff"));
  EXPECT_FALSE(ada->component);
}

TEST_F(ReviewTest, NobodyIsServedWithoutAnIdentity) {
  for (const Credentials& credentials : {Credentials{}, Credentials{.bearer_token = "stolen"},
                                         Credentials{.bearer_token = std::string(20'000, 'x')},
                                         // Of our authority, and none of our components.
                                         Credentials{.certificate_name = "system:kube-scheduler"},
                                         Credentials{.certificate_name = "asterism-mallory"},
                                         // Of nodes, which are trusted less.
                                         Credentials{.certificate_name = "asterism-agent"}}) {
    const auto caller = Identify(credentials);
    EXPECT_TRUE(absl::IsUnauthenticated(caller.status())) << caller.status();
    EXPECT_THAT(std::string(caller.status().message()), Not(HasSubstr("stolen")));
  }
}

TEST_F(ReviewTest, AComponentNeedsNoReview) {
  const auto caller = Identify({.certificate_name = "asterism-scheduler"});
  ASSERT_TRUE(caller.ok());
  EXPECT_TRUE((*caller)->component);
  EXPECT_TRUE(Review(*caller, {.verb = "create", .namespace_name = "research"}).ok());
  EXPECT_EQ(reviews_.token_reviews() + reviews_.access_reviews(), 0);
}

TEST_F(ReviewTest, AnswersAreKeptForTenSecondsTheNoToo) {
  for (int i = 0; i < 5; ++i) {
    Ada();
    Identify({.bearer_token = "stolen"}).IgnoreError();
    EXPECT_TRUE(
        absl::IsPermissionDenied(Review(Ada(), {.verb = "create", .namespace_name = "research"})));
  }
  EXPECT_EQ(reviews_.token_reviews(), 2);
  EXPECT_EQ(reviews_.access_reviews(), 1);
  reviews_.Allow("ada", "create trainingjobs research");
  executor_.RunFor(absl::Seconds(10));
  EXPECT_TRUE(Review(Ada(), {.verb = "create", .namespace_name = "research"}).ok());
  EXPECT_EQ(reviews_.token_reviews(), 3);
}

TEST_F(ReviewTest, CallersWhoComeTogetherShareOneReview) {
  int answers = 0;
  for (int i = 0; i < 10; ++i) {
    identity_.Identify({.bearer_token = "token-of-ada"},
                       [&](const auto& caller) { answers += caller.ok() ? 1 : 0; });
  }
  executor_.RunFor(absl::Milliseconds(50));
  EXPECT_EQ(answers, 10);
  EXPECT_EQ(reviews_.token_reviews(), 1);
}

TEST_F(ReviewTest, AReviewThatFailsOpensNoDoorAndIsNotKept) {
  const auto ada = Ada();
  reviews_.Allow("ada", "get trainingjobs research");
  server_.SetDown(true);
  EXPECT_TRUE(absl::IsUnavailable(Identify({.bearer_token = "another"}).status()));
  EXPECT_TRUE(absl::IsUnavailable(Review(ada, {.verb = "get", .namespace_name = "research"})));
  server_.SetDown(false);
  EXPECT_TRUE(absl::IsUnauthenticated(Identify({.bearer_token = "another"}).status()));
  EXPECT_TRUE(Review(ada, {.verb = "get", .namespace_name = "research"}).ok());
}

TEST_F(ReviewTest, NonsenseIsNoYes) {
  const auto ada = Ada();
  for (const char* nonsense :
       {R"({"status":{}})", R"({"status":{"allowed":"true","authenticated":"true"}})", R"({})",
        R"({"status":{"allowed":true,"denied":true,"authenticated":true,"user":{}}})",
        R"({"status":[]})"}) {
    const auto answer = [&](nlohmann::json& review) { review = nlohmann::json::parse(nonsense); };
    server_.SetReview("tokenreviews", answer);
    server_.SetReview("subjectaccessreviews", answer);
    EXPECT_FALSE(Identify({.bearer_token = nonsense}).ok()) << nonsense;
    EXPECT_FALSE(Review(ada, {.verb = "get", .name = nonsense}).ok()) << nonsense;
  }
}

TEST_F(ReviewTest, TheReviewSaysWhoAndWhat) {
  Review(Ada(), {.verb = "get", .namespace_name = "research", .name = "llama"}).IgnoreError();
  EXPECT_EQ(reviews_.last_access(), nlohmann::json::parse(R"({
    "user": "ada", "uid": "uid-of-ada", "groups": ["team-a", "staff"],
    "extra": {"example.org/scope": ["all"]},
    "resourceAttributes": {"verb": "get", "group": "asterism.dev", "version": "v1alpha1",
                           "resource": "trainingjobs", "namespace": "research", "name": "llama"}})"));
}

TEST_F(ReviewTest, TheCacheIsBounded) {
  const auto ada = Ada();
  for (int i = 0; i < 50; ++i) {
    Review(ada, {.verb = "get", .namespace_name = "n" + std::to_string(i)}).IgnoreError();
  }
  EXPECT_EQ(reviews_.access_reviews(), 50);
  Review(ada, {.verb = "get", .namespace_name = "n49"}).IgnoreError();
  EXPECT_EQ(reviews_.access_reviews(), 50) << "the newest are kept";
  Review(ada, {.verb = "get", .namespace_name = "n0"}).IgnoreError();
  EXPECT_EQ(reviews_.access_reviews(), 51) << "the oldest are gone";
}

TEST_F(ReviewTest, StrangersCannotKeepTheApiServerBusy) {
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    identity_.Identify({.bearer_token = "guess" + std::to_string(i)}, [&](const auto& caller) {
      refused += absl::IsResourceExhausted(caller.status()) ? 1 : 0;
    });
  }
  executor_.RunFor(absl::Milliseconds(10));
  EXPECT_EQ(reviews_.token_reviews(), CallerIdentityOptions().new_tokens_at_once);
  EXPECT_EQ(refused, 1000 - CallerIdentityOptions().new_tokens_at_once);
  executor_.RunFor(absl::Seconds(1));
  EXPECT_EQ(Ada()->user, "ada");
}

TEST_F(ReviewTest, OneCallerCannotKeepTheApiServerBusy) {
  reviews_.AddUser("token-of-eve", "eve");
  const auto ada = Ada();
  const auto eve = *Identify({.bearer_token = "token-of-eve"});
  int refused = 0;
  const auto ask = [&](const std::shared_ptr<const Caller>& caller, int times) {
    refused = 0;
    for (int i = 0; i < times; ++i) {
      access_.Review(caller, {.verb = "get", .namespace_name = "n", .name = std::to_string(i)},
                     [&](const absl::Status& status) {
                       refused += absl::IsResourceExhausted(status) ? 1 : 0;
                     });
    }
    executor_.RunFor(absl::Milliseconds(10));
  };
  ask(ada, 500);
  EXPECT_EQ(reviews_.access_reviews(), 60);
  EXPECT_EQ(refused, 500 - 60);
  ask(eve, 30);
  EXPECT_EQ(refused, 0) << "others have their own";
  ask(eve, 500);
  EXPECT_EQ(reviews_.access_reviews(), 100) << "and all together no more than this";
  executor_.RunFor(absl::Seconds(3));
  EXPECT_TRUE(absl::IsPermissionDenied(Review(ada, {.verb = "list", .namespace_name = "n"})));
}

TEST_F(ReviewTest, ARefusalSaysWhichRoleWouldHelp) {
  const auto ada = Ada();
  EXPECT_THAT(std::string(Review(ada, {.verb = "get", .namespace_name = "research"}).message()),
              HasSubstr("in namespace \"research\": ask for a Role with that verb"));
  EXPECT_THAT(
      std::string(Review(ada, {.verb = "get", .resource = "clustertopologies"}).message()),
      HasSubstr("in the whole cluster: ask for a ClusterRole and a ClusterRoleBinding with"));
}

TEST_F(ReviewTest, SeesTheNamespacesInWhichItMayList) {
  reviews_.Allow("ada", "list trainingjobs research");
  const auto some = Visible({"research", "vision"});
  ASSERT_TRUE(some.ok());
  EXPECT_TRUE(some->Shows("research"));
  EXPECT_FALSE(some->Shows("vision"));
  EXPECT_FALSE(Visible({})->Shows("research"));
  server_.SetDown(true);
  EXPECT_TRUE(absl::IsUnavailable(Visible({"another"}).status()));
  server_.SetDown(false);
  executor_.RunFor(absl::Seconds(10));
  reviews_.Allow("ada", "list trainingjobs *");
  EXPECT_TRUE(Visible({"research"})->Shows("any"));
}

}  // namespace
}  // namespace asterism::controller
