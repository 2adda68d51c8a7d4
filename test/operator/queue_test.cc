#include "operator/queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "nlohmann/json.hpp"
#include "test/operator/job_texts.h"

namespace asterism::operators {
namespace {

using nlohmann::json;
using testing::ElementsAre;

Queue QueueWith(const json& spec) {
  const json object = {{"metadata", {{"name", "prod"}, {"uid", "q"}, {"generation", 4}}},
                       {"spec", spec}};
  const auto queue = ParseQueue(object.dump());
  CHECK_THAT(queue.ok(), std::string(queue.status().message()));
  return *queue;
}

std::string WhyMayNotUse(const json& queue, const json& job, const kube::StringPairs& labels = {}) {
  return std::string(MayUse(QueueWith(queue), JobWith(job), labels).message());
}

TEST(ParseQueue, ReadsEveryField) {
  const auto queue = ParseQueue(R"({
    "metadata": {"name": "research"},
    "spec": {
      "parent": "division", "namespaces": ["research"],
      "namespaceSelector": {"matchLabels": {"team": "llm"},
                            "matchExpressions": [{"key": "env", "operator": "In", "values": ["a"]}]},
      "defaultClass": "Finetuning", "allowedClasses": ["Finetuning", "Search"],
      "allowedPriorityClasses": ["high"], "maxGpusPerJob": 1024,
      "quotas": [{"product": "*", "guaranteed": 2048, "limit": 4096, "lendingLimit": 1024}],
      "stopPolicy": "Hold"},
    "status": {"used": 8}})");
  ASSERT_TRUE(queue.ok()) << queue.status();
  EXPECT_EQ(queue->spec.parent, "division");
  EXPECT_THAT(queue->spec.namespaces, ElementsAre("research"));
  ASSERT_TRUE(queue->spec.namespace_selector.has_value());
  EXPECT_EQ(queue->spec.namespace_selector->match_expressions[0].op, "In");
  EXPECT_EQ(queue->spec.default_class, JobClass::kFinetuning);
  EXPECT_THAT(queue->spec.allowed_classes, ElementsAre(JobClass::kFinetuning, JobClass::kSearch));
  EXPECT_THAT(queue->spec.allowed_priority_classes, ElementsAre("high"));
  EXPECT_EQ(queue->spec.max_gpus_per_job, 1024);
  ASSERT_EQ(queue->spec.quotas.size(), 1u);
  EXPECT_EQ(queue->spec.quotas[0].guaranteed, 2048);
  EXPECT_EQ(queue->spec.quotas[0].limit, 4096);
  EXPECT_EQ(queue->spec.quotas[0].lending_limit, 1024);
  EXPECT_EQ(queue->spec.stop_policy, "Hold");
  EXPECT_EQ(queue->status_json, R"({"used":8})");
}

TEST(ParseQueue, TheDefaultClassIsOneThatIsAllowed) {
  EXPECT_EQ(QueueWith(json::object()).spec.default_class, JobClass::kFinetuning);
  EXPECT_EQ(QueueWith({{"allowedClasses", {"Search"}}}).spec.default_class, JobClass::kSearch);
}

TEST(ParseQueue, ErrorsNameTheField) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"quotas": [{"product": "*", "limit": -1}]})",
       "spec.quotas[0].limit: must be a whole number from 0 to 1048576, not -1"},
      {R"({"quotas": [{}]})",
       "spec.quotas[0].product: missing: name a product, or \"*\" for those that are not listed"},
      {R"({"allowedClasses": ["x"]})",
       "spec.allowedClasses: must be of Pretraining, Finetuning, Search"},
      {R"({"stopPolicy": "Stop"})",
       "spec.stopPolicy: must be one of None, Hold, HoldAndDrain, not \"Stop\""},
      {R"({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}})",
       "spec.namespaceSelector.matchExpressions[0].operator: must be one of In, NotIn, Exists, "
       "DoesNotExist, not \"Gt\""},
  };
  for (const auto& [spec, message] : cases) {
    const json object = {{"metadata", {{"name", "a"}}}, {"spec", json::parse(spec)}};
    EXPECT_EQ(std::string(ParseQueue(object.dump()).status().message()), message);
  }
}

TEST(LabelSelector, IsTheOneOfKubernetes) {
  const kube::StringPairs labels = {{"a", "1"}};
  const auto matches = [&labels](const char* op, std::string key, std::vector<std::string> values) {
    const LabelSelector selector{
        .match_expressions = {{.key = std::move(key), .op = op, .values = std::move(values)}}};
    return selector.Matches(labels);
  };
  EXPECT_TRUE(LabelSelector{}.Matches({}));
  EXPECT_TRUE((LabelSelector{.match_labels = {{"a", "1"}}}.Matches(labels)));
  EXPECT_FALSE((LabelSelector{.match_labels = {{"a", "2"}}}.Matches(labels)));
  EXPECT_FALSE((LabelSelector{.match_labels = {{"b", "1"}}}.Matches(labels)));
  EXPECT_TRUE(matches("In", "a", {"1", "2"}));
  EXPECT_FALSE(matches("In", "a", {"2"}));
  EXPECT_FALSE(matches("In", "b", {"1"}));
  EXPECT_FALSE(matches("NotIn", "a", {"1"}));
  EXPECT_TRUE(matches("NotIn", "b", {"1"}));
  EXPECT_TRUE(matches("Exists", "a", {}));
  EXPECT_FALSE(matches("Exists", "b", {}));
  EXPECT_FALSE(matches("DoesNotExist", "a", {}));
  EXPECT_TRUE(matches("DoesNotExist", "b", {}));
  EXPECT_FALSE(matches("Gt", "a", {}));
}

TEST(MayUse, DependsOnTheNamespace) {
  const json job = {{"gpus", 8}};
  EXPECT_EQ(WhyMayNotUse({{"namespaces", {"research"}}}, job), "");
  EXPECT_EQ(WhyMayNotUse({{"namespaceSelector", json::object()}}, job), "");
  EXPECT_EQ(WhyMayNotUse({{"namespaces", {"other"}},
                          {"namespaceSelector", {{"matchLabels", {{"team", "llm"}}}}}},
                         job, {{"team", "llm"}}),
            "");
  EXPECT_EQ(WhyMayNotUse({{"namespaces", {"other"}}}, job),
            "spec.queue: namespace \"research\" may not use queue \"prod\": add it to the queue's "
            "namespaces or namespaceSelector, or use another queue");
  EXPECT_EQ(WhyMayNotUse(json::object(), job),
            "spec.queue: queue \"prod\" names no namespace, so nobody may use it: state its "
            "namespaces or namespaceSelector, or use another queue");
  EXPECT_EQ(MayUse(QueueWith(json::object()), JobWith(job), {}).code(),
            absl::StatusCode::kPermissionDenied);
}

TEST(MayUse, DependsOnTheJob) {
  const json all = {{"namespaceSelector", json::object()}};
  json queue = all;
  queue["allowedClasses"] = {"Finetuning", "Search"};
  EXPECT_EQ(WhyMayNotUse(queue, {{"gpus", 8}}), "");
  EXPECT_EQ(
      WhyMayNotUse(queue, {{"gpus", 8}, {"class", "Pretraining"}}),
      "spec.class: Pretraining is not allowed in queue \"prod\": use Finetuning or Search, or "
      "another queue");
  queue = all;
  queue["allowedPriorityClasses"] = {"high"};
  EXPECT_EQ(WhyMayNotUse(queue, {{"gpus", 8}, {"priorityClassName", "high"}}), "");
  EXPECT_EQ(
      WhyMayNotUse(queue, {{"gpus", 8}, {"priorityClassName", "low"}}),
      "spec.priorityClassName: \"low\" is not allowed in queue \"prod\": use high, or another "
      "queue");
  EXPECT_EQ(WhyMayNotUse(queue, {{"gpus", 8}}),
            "spec.priorityClassName: none is stated, which is not allowed in queue \"prod\": use "
            "high, or another queue");
  queue = all;
  queue["maxGpusPerJob"] = 16;
  EXPECT_EQ(WhyMayNotUse(queue, {{"gpus", 16}}), "");
  EXPECT_EQ(WhyMayNotUse(queue, {{"gpus", 24}}),
            "spec.gpus: 24 is more than queue \"prod\" allows a job: use at most 16, or another "
            "queue");
}

TEST(QueueStatus, AddsUpQuotas) {
  const Queue queue = QueueWith({{"quotas",
                                  {{{"product", "H200"}, {"guaranteed", 8}, {"limit", 64}},
                                   {{"product", "*"}, {"guaranteed", 4}, {"limit", 8}}}}});
  const kube::Condition ready{.type = "Ready",
                              .status = "True",
                              .last_transition_time = absl::FromUnixSeconds(1767225600),
                              .reason = "Ready"};
  EXPECT_EQ(json::parse(QueueStatusApplyBody(queue, {{"H200", 16}, {"A100", 1}, {"T4", 1}}, 2, 24,
                                             {ready})),
            json::parse(R"({
    "apiVersion": "asterism.dev/v1alpha1", "kind": "Queue",
    "metadata": {"name": "prod"},
    "status": {
      "observedGeneration": 4, "used": 18, "guaranteed": 12, "limit": 72, "borrowed": 8,
      "pending": {"jobs": 2, "gpus": 24},
      "products": [
        {"product": "H200", "used": 16, "guaranteed": 8, "limit": 64, "borrowed": 8},
        {"product": "*", "used": 2, "guaranteed": 4, "limit": 8, "borrowed": 0}],
      "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                      "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})"));
}

TEST(QueueStatus, AQueueWithoutQuotaBorrowsAll) {
  const json status =
      json::parse(QueueStatusApplyBody(QueueWith(json::object()), {{"*", 8}}, 0, 0, {}))["status"];
  EXPECT_EQ(status["used"], 8);
  EXPECT_EQ(status["borrowed"], 8);
  EXPECT_FALSE(status.contains("limit"));
}

// The CRD allows 64 rows, each with a product.
TEST(QueueStatus, ShowsNoMoreRowsThanTheApiServerTakes) {
  std::vector<QueueUsage> used = {{"", 8}};
  for (int i = 0; i < 100; ++i) {
    used.push_back({"P" + std::to_string(i), 1});
  }
  const json status =
      json::parse(QueueStatusApplyBody(QueueWith(json::object()), used, 0, 0, {}))["status"];
  EXPECT_EQ(status["used"], 108);
  ASSERT_EQ(status["products"].size(), 64U);
  EXPECT_EQ(status["products"][0]["product"], "P0");
}

}  // namespace
}  // namespace asterism::operators
