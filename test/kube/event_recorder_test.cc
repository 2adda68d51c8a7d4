#include "kube/event_recorder.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "fmt/format.h"
#include "kube/testing/fake_api_server.h"
#include "nlohmann/json.hpp"

namespace asterism::kube {
namespace {

using nlohmann::json;
using testing::FakeApiServer;

class EventRecorderTest : public ::testing::Test {
 protected:
  base::SimClock clock_;
  base::SimExecutor executor_{clock_};
  FakeApiServer server_{clock_, executor_, {}};
  base::MetricRegistry registry_;
  EventRecorder recorder_{
      clock_,
      executor_,
      server_,
      registry_,
      {.reporting_controller = "asterism-controller", .reporting_instance = "pod-1"}};

  static EventRecord Event(const std::string& object, const std::string& reason) {
    return {.regarding = {"asterism.dev/v1alpha1", "TrainingJob", "research", object, "u1"},
            .reason = reason,
            .action = reason,
            .note = "64 pods on 64 nodes"};
  }
  int Count(const std::string& verb) const {
    const auto found = server_.requests().find(verb + " events");
    return found == server_.requests().end() ? 0 : found->second;
  }
  bool Exposes(const std::string& line) const {
    return registry_.Expose().find(line) != std::string::npos;
  }
};

TEST_F(EventRecorderTest, WritesAnEventThatTheServerAccepts) {
  recorder_.Record(Event("llama", "Placed"));
  executor_.RunFor(absl::Seconds(1));
  const auto events = server_.All(kEvents);
  ASSERT_EQ(events.size(), 1u);
  const json& event = *events[0];
  EXPECT_EQ(event["metadata"]["namespace"], "research");
  EXPECT_EQ(event["type"], "Normal");
  EXPECT_EQ(event["reason"], "Placed");
  EXPECT_EQ(event["regarding"]["name"], "llama");
  EXPECT_EQ(event["eventTime"], "2026-01-01T00:00:00.000000Z");
  EXPECT_EQ(event["reportingController"], "asterism-controller");
  EXPECT_FALSE(event.contains("series"));
  EXPECT_FALSE(event.contains("related"));
}

TEST_F(EventRecorderTest, ARepeatBecomesASeries) {
  for (int i = 0; i < 50; ++i) {
    recorder_.Record(Event("llama", "Waiting"));
    executor_.RunFor(absl::Seconds(1));
  }
  EXPECT_EQ(Count("create"), 1);
  EXPECT_EQ(Count("patch"), 1);  // the first repeat only
  executor_.RunFor(absl::Minutes(8));
  EXPECT_EQ(Count("patch"), 2);  // and the end of the series
  EXPECT_EQ((*server_.All(kEvents)[0])["series"]["count"], 50);
  recorder_.Record(Event("llama", "Waiting"));
  executor_.RunFor(absl::Minutes(1));
  EXPECT_EQ(Count("create"), 2);
}

// The note of an event cannot be changed: "epoch 1" must not stand for epoch 2.
TEST_F(EventRecorderTest, AnotherNoteIsAnotherEvent) {
  for (int epoch = 1; epoch <= 2; ++epoch) {
    EventRecord event = Event("llama", "Placed");
    event.note = fmt::format("epoch {}", epoch);
    recorder_.Record(std::move(event));
    executor_.RunFor(absl::Seconds(1));
  }
  ASSERT_EQ(server_.All(kEvents).size(), 2u);
}

TEST_F(EventRecorderTest, AnExpiredEventOfASeriesIsWrittenAnew) {
  recorder_.Record(Event("llama", "Waiting"));
  executor_.RunFor(absl::Seconds(1));
  server_.Remove(kEvents, {"research", (*server_.All(kEvents)[0])["metadata"]["name"]});
  recorder_.Record(Event("llama", "Waiting"));
  executor_.RunFor(absl::Seconds(1));
  ASSERT_EQ(server_.All(kEvents).size(), 1u);
  EXPECT_EQ((*server_.All(kEvents)[0])["series"]["count"], 2);
}

TEST_F(EventRecorderTest, OneObjectCannotFloodTheServer) {
  for (int i = 0; i < 100; ++i) {
    recorder_.Record(Event("llama", fmt::format("Reason{}", i)));
  }
  recorder_.Record(Event("other", "Placed"));
  executor_.RunFor(absl::Minutes(4));
  EXPECT_EQ(Count("create"), 26);
  EXPECT_TRUE(Exposes("asterism_events_total{result=\"dropped\"} 75")) << registry_.Expose();
}

TEST_F(EventRecorderTest, AllTogetherAreLimitedAndTheQueueIsBounded) {
  for (int i = 0; i < 2000; ++i) {
    recorder_.Record(Event(fmt::format("job{}", i), "Placed"));
  }
  EXPECT_LE(recorder_.waiting(), 1000u);
  executor_.RunFor(absl::Seconds(10));
  EXPECT_GE(Count("create"), 200);
  EXPECT_LE(Count("create"), 225);
  executor_.RunFor(absl::Minutes(2));
  EXPECT_GE(Count("create"), 1000);
  EXPECT_LE(Count("create"), 1021);
}

TEST_F(EventRecorderTest, ATransientErrorIsTriedAgainAFinalOneIsNot) {
  server_.InjectFault({.verb = "create", .plural = "events", .count = 2, .http_code = 503});
  recorder_.Record(Event("llama", "Placed"));
  executor_.RunFor(absl::Minutes(1));
  EXPECT_EQ(server_.All(kEvents).size(), 1u);
  server_.InjectFault({.verb = "create", .plural = "events", .http_code = 403});
  recorder_.Record(Event("llama", "Bound"));
  executor_.RunFor(absl::Minutes(1));
  EXPECT_EQ(server_.All(kEvents).size(), 1u);
  EXPECT_TRUE(Exposes("asterism_events_total{result=\"failed\"} 1"));
}

TEST_F(EventRecorderTest, CutsALongNoteBetweenCharacters) {
  EventRecord event = Event("llama", "Placed");
  event.note = "x";
  for (int i = 0; i < 600; ++i) {
    event.note += "\xc3\xa9";
  }
  recorder_.Record(std::move(event));
  executor_.RunFor(absl::Seconds(1));
  const std::string note = (*server_.All(kEvents)[0])["note"];
  EXPECT_LE(note.size(), 1000u);
  EXPECT_TRUE(note.ends_with("\xc3\xa9..."));
}

}  // namespace
}  // namespace asterism::kube
