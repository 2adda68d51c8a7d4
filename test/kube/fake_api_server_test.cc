#include "kube/testing/fake_api_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kube/api_error.h"
#include "nlohmann/json.hpp"

namespace asterism::kube::testing {
namespace {

using nlohmann::json;

constexpr ResourceType kJobs{"asterism.dev", "v1alpha1", "trainingjobs",
                             "TrainingJob",  true,       /*protobuf=*/false};

class FakeApiServerTest : public ::testing::Test {
 protected:
  base::SimClock clock_;
  base::SimExecutor executor_{clock_};
  FakeApiServer server_{clock_, executor_, {}};

  template <typename Start>
  absl::StatusOr<Reply> Call(Start start) {
    absl::StatusOr<Reply> result = absl::UnknownError("no answer");
    start([&](absl::StatusOr<Reply> reply) { result = std::move(reply); });
    executor_.RunFor(absl::Milliseconds(2));
    return result;
  }
  absl::StatusOr<Reply> Create(const ResourceType& type, const json& object,
                               CreateOptions options = {}) {
    return Call([&](ReplyCallback done) {
      server_.Create(type, "ns", object.dump(), options, Lane::kWrite, std::move(done));
    });
  }
  absl::StatusOr<Reply> Patch(const ResourceType& type, const json& patch, PatchOptions options) {
    return Call([&](ReplyCallback done) {
      server_.Patch(type, {"ns", "a"}, patch.dump(), std::move(options), std::move(done));
    });
  }
  absl::StatusOr<Reply> Delete(const ResourceType& type, DeleteOptions options = {}) {
    return Call([&](ReplyCallback done) {
      server_.Delete(type, {"ns", "a"}, std::move(options), std::move(done));
    });
  }
  json Object(const ResourceType& type) const {
    const auto found = server_.Find(type, {"ns", "a"});
    return found == nullptr ? json() : *found;
  }
  static json Named(json more = json::object()) {
    more["metadata"]["name"] = "a";
    return more;
  }
};

TEST_F(FakeApiServerTest, CreationFillsInWhatAServerDoes) {
  ASSERT_TRUE(Create(kJobs, Named({{"spec", {{"gpus", 8}}}, {"status", {{"state", "x"}}}})).ok());
  const json job = Object(kJobs);
  EXPECT_EQ(job["apiVersion"], "asterism.dev/v1alpha1");
  EXPECT_EQ(job["kind"], "TrainingJob");
  EXPECT_EQ(job["metadata"]["generation"], 1);
  EXPECT_EQ(job["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
  EXPECT_FALSE(job["metadata"]["uid"].get<std::string>().empty());
  EXPECT_FALSE(job.contains("status"));
  EXPECT_EQ(GetErrorDetails(Create(kJobs, Named()).status()).reason, "AlreadyExists");
  EXPECT_EQ(GetErrorDetails(Create(kJobs, json::object()).status()).http_code, 422);
  EXPECT_EQ(GetErrorDetails(Create(kJobs, json("x")).status()).http_code, 400);
}

TEST_F(FakeApiServerTest, DryRunStoresNothing) {
  const absl::StatusOr<Reply> reply = Create(kPods, Named(), {.dry_run = true});
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(json::parse(reply->body)["spec"]["schedulerName"], "default-scheduler");
  EXPECT_TRUE(Object(kPods).is_null());
}

TEST_F(FakeApiServerTest, PodsGetDefaults) {
  server_.Put(kPriorityClasses, {{"metadata", {{"name", "high"}}}, {"value", 7}});
  ASSERT_TRUE(
      Create(kPods,
             Named({{"spec",
                     {{"priorityClassName", "high"},
                      {"containers",
                       {{{"name", "c"}, {"resources", {{"limits", {{"x.dev/gpu", "8"}}}}}}}}}}}))
          .ok());
  const json pod = Object(kPods);
  EXPECT_EQ(pod["spec"]["priority"], 7);
  EXPECT_EQ(pod["spec"]["containers"][0]["resources"]["requests"]["x.dev/gpu"], "8");
  EXPECT_EQ(pod["status"]["phase"], "Pending");
  EXPECT_EQ(GetErrorDetails(Create(kPods, {{"metadata", {{"name", "b"}}},
                                           {"spec", {{"priorityClassName", "none"}}}})
                                .status())
                .http_code,
            403);
}

TEST_F(FakeApiServerTest, SpecAndStatusAreWrittenApart) {
  Create(kJobs, Named({{"spec", {{"gpus", 8}}}})).IgnoreError();
  Patch(kJobs, {{"spec", {{"gpus", 1}}}, {"status", {{"state", "Running"}}}},
        {.subresource = "status"})
      .IgnoreError();
  EXPECT_EQ(Object(kJobs)["spec"]["gpus"], 8);
  EXPECT_EQ(Object(kJobs)["status"]["state"], "Running");
  EXPECT_EQ(Object(kJobs)["metadata"]["generation"], 1);
  Patch(kJobs, {{"spec", {{"gpus", 16}}}, {"status", {{"state", "x"}}}}, {}).IgnoreError();
  EXPECT_EQ(Object(kJobs)["spec"]["gpus"], 16);
  EXPECT_EQ(Object(kJobs)["status"]["state"], "Running");
  EXPECT_EQ(Object(kJobs)["metadata"]["generation"], 2);
  const uint64_t version = server_.version();
  Patch(kJobs, {{"spec", {{"gpus", 16}}}}, {}).IgnoreError();
  EXPECT_EQ(server_.version(), version);  // nothing changed, nothing written
}

TEST_F(FakeApiServerTest, ApplyRemovesWhatIsNoLongerApplied) {
  const PatchOptions options{
      .type = PatchType::kApply, .subresource = "status", .field_manager = "m"};
  Create(kJobs, Named()).IgnoreError();
  Patch(kJobs, {{"status", {{"waiting", {{"reason", "NoCapacity"}}}, {"state", "Pending"}}}},
        options)
      .IgnoreError();
  Patch(kJobs, {{"status", {{"other", 1}}}}, {.subresource = "status"}).IgnoreError();
  Patch(kJobs, {{"status", {{"state", "Placed"}}}}, options).IgnoreError();
  EXPECT_EQ(Object(kJobs)["status"], (json{{"state", "Placed"}, {"other", 1}}));
  const absl::StatusOr<Reply> created = Call([&](ReplyCallback done) {
    server_.Patch(kConfigMaps, {"ns", "new"}, R"({"data":{"a":"b"}})",
                  {.type = PatchType::kApply, .field_manager = "m"}, std::move(done));
  });
  EXPECT_TRUE(created.ok());
  EXPECT_TRUE(absl::IsNotFound(Patch(kConfigMaps, json::object(), {}).status()));
}

TEST_F(FakeApiServerTest, JsonPatchesTestFirst) {
  Create(kJobs, Named({{"metadata", {{"finalizers", {"x"}}}}})).IgnoreError();
  const json good = {{{"op", "test"}, {"path", "/metadata/finalizers/0"}, {"value", "x"}},
                     {{"op", "remove"}, {"path", "/metadata/finalizers/0"}}};
  EXPECT_TRUE(Patch(kJobs, good, {.type = PatchType::kJson}).ok());
  EXPECT_EQ(GetErrorDetails(Patch(kJobs, good, {.type = PatchType::kJson}).status()).http_code,
            422);
}

TEST_F(FakeApiServerTest, StaleWritesConflict) {
  Create(kJobs, Named({{"spec", {{"gpus", 8}}}})).IgnoreError();
  json job = Object(kJobs);
  job["spec"]["gpus"] = 16;
  const auto update = [&] {
    return Call([&](ReplyCallback done) {
      server_.Update(kJobs, {"ns", "a"}, job.dump(), Lane::kWrite, std::move(done));
    });
  };
  EXPECT_TRUE(update().ok());
  job["spec"]["gpus"] = 32;
  EXPECT_TRUE(absl::IsAborted(update().status()));
  EXPECT_TRUE(
      absl::IsAborted(Patch(kJobs, {{"metadata", {{"resourceVersion", "1"}}}}, {}).status()));
  EXPECT_TRUE(absl::IsAborted(Delete(kJobs, {.uid = "other"}).status()));
  EXPECT_FALSE(Object(kJobs).is_null());
}

TEST_F(FakeApiServerTest, FinalizersHoldADeletion) {
  Create(kJobs, Named({{"metadata", {{"finalizers", {"x"}}}}})).IgnoreError();
  EXPECT_TRUE(Delete(kJobs).ok());
  EXPECT_TRUE(Object(kJobs)["metadata"].contains("deletionTimestamp"));
  Patch(kJobs, {{"metadata", {{"finalizers", nullptr}}}}, {}).IgnoreError();
  EXPECT_TRUE(Object(kJobs).is_null());
  EXPECT_EQ(Delete(kJobs)->code, 404);
}

TEST_F(FakeApiServerTest, BoundPodsEndGracefully) {
  server_.Put(kPods, {{"metadata", {{"namespace", "ns"}, {"name", "a"}}},
                      {"spec", {{"nodeName", "n1"}}},
                      {"status", {{"phase", "Running"}}}});
  EXPECT_TRUE(Delete(kPods).ok());
  EXPECT_EQ(Object(kPods)["metadata"]["deletionGracePeriodSeconds"], 30);
  executor_.RunFor(absl::Milliseconds(200));
  EXPECT_TRUE(Object(kPods).is_null());
  // At once: not bound, or without grace.
  server_.Put(kPods, {{"metadata", {{"namespace", "ns"}, {"name", "a"}}}});
  Delete(kPods).IgnoreError();
  EXPECT_TRUE(Object(kPods).is_null());
}

TEST_F(FakeApiServerTest, DependentsGoWithTheirOwner) {
  Create(kJobs, Named()).IgnoreError();
  const std::string uid = Object(kJobs)["metadata"]["uid"];
  server_.Put(kPods, {{"metadata",
                       {{"namespace", "ns"},
                        {"name", "a"},
                        {"ownerReferences", {{{"uid", uid}, {"kind", "TrainingJob"}}}}}}});
  Delete(kJobs).IgnoreError();
  executor_.RunFor(absl::Seconds(1));
  EXPECT_TRUE(Object(kPods).is_null());
}

TEST_F(FakeApiServerTest, FaultsComeBeforeOrAfterTheCommit) {
  server_.InjectFault({.verb = "create", .plural = "pods", .http_code = 504, .commit = true});
  EXPECT_TRUE(absl::IsDeadlineExceeded(Create(kPods, Named()).status()));
  EXPECT_FALSE(Object(kPods).is_null());
  server_.Remove(kPods, {"ns", "a"});
  server_.InjectFault(
      {.verb = "create", .count = 2, .http_code = 429, .retry_after = absl::Seconds(1)});
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = Create(kPods, Named()).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status));
    EXPECT_EQ(GetErrorDetails(status).retry_after, absl::Seconds(1));
  }
  EXPECT_TRUE(Create(kPods, Named()).ok());
  server_.SetDown(true);
  EXPECT_TRUE(absl::IsUnavailable(Delete(kPods).status()));
  server_.SetDown(false);
  EXPECT_TRUE(Delete(kPods).ok());
}

TEST_F(FakeApiServerTest, AdmissionMayChangeAndRefuse) {
  server_.SetAdmission([](const ResourceType&, std::string_view verb, json& object) {
    if (object["metadata"].value("name", "") == "bad") {
      return absl::PermissionDeniedError("no such name");
    }
    object["metadata"]["labels"]["seen"] = verb;
    return absl::OkStatus();
  });
  EXPECT_TRUE(Create(kPods, Named()).ok());
  EXPECT_EQ(Object(kPods)["metadata"]["labels"]["seen"], "create");
  const absl::Status refused = Create(kPods, {{"metadata", {{"name", "bad"}}}}).status();
  EXPECT_TRUE(absl::IsPermissionDenied(refused));
  EXPECT_EQ(GetErrorDetails(refused).http_code, 403);
}

TEST(Selector, KnowsAllForms) {
  const json object = {{"metadata", {{"name", "p"}, {"labels", {{"a", "1"}, {"b", "x"}}}}},
                       {"spec", {{"nodeName", "n"}}}};
  const auto matches = [&](const std::string& labels, const std::string& fields) {
    return Selector::Parse(labels, fields)->Matches(object);
  };
  for (const char* yes : {"", "a=1", "a==1", "a!=2", "a", "!c", "a in (1,2)", "a notin (3)",
                          "c notin (1)", "a=1,b in (x, y),!z"}) {
    EXPECT_TRUE(matches(yes, "")) << yes;
  }
  for (const char* no : {"a=2", "a!=1", "c", "!a", "a in (2)", "a notin (1,2)", "a=1,b=y"}) {
    EXPECT_FALSE(matches(no, "")) << no;
  }
  EXPECT_TRUE(matches("", "spec.nodeName=n,metadata.name!=q"));
  EXPECT_TRUE(matches("", "spec.schedulerName="));
  EXPECT_FALSE(matches("", "spec.nodeName="));
  EXPECT_FALSE(Selector::Parse("a near (b)", "").ok());
}

}  // namespace
}  // namespace asterism::kube::testing
