#include "controller/queue_stream.h"

#include <memory>
#include <string>
#include <vector>

#include "asterism/v1/placement.pb.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Row {
  std::string name;  // "namespace/name"
  std::string reason = "NoCapacity";
};

std::shared_ptr<const QueueState> State(const std::vector<Row>& rows) {
  auto state = std::make_shared<QueueState>();
  for (const Row& row : rows) {
    const size_t slash = row.name.find('/');
    state->rows.push_back(
        std::make_shared<QueueRow>(QueueRow{.namespace_name = row.name.substr(0, slash),
                                            .name = row.name.substr(slash + 1),
                                            .queue = "default",
                                            .gpus = 8,
                                            .reason = row.reason}));
    state->gpus += 8;
  }
  return state;
}

std::shared_ptr<const VisibleNamespaces> Only(const std::string& name) {
  auto visible = std::make_shared<VisibleNamespaces>();
  visible->names.insert(name);
  return visible;
}

std::shared_ptr<const VisibleNamespaces> All() {
  auto visible = std::make_shared<VisibleNamespaces>();
  visible->all = true;
  return visible;
}

// Keeps what is written; the test says when the caller has read it.
class FakeWriter final : public QueueWriter {
 public:
  void Write(std::unique_ptr<v1::WatchQueueResponse> message) override {
    std::vector<std::string> words = {message->snapshot() ? "all" : "changes"};
    for (const v1::WaitingJob& job : message->jobs()) {
      words.push_back(
          fmt::format("+{}/{} {}", job.job().namespace_(), job.job().name(), job.reason()));
    }
    for (const v1::JobName& job : message->gone()) {
      words.push_back(fmt::format("-{}/{}", job.namespace_(), job.name()));
    }
    words.push_back(
        fmt::format("of {} jobs, {} GPUs", message->waiting_jobs(), message->waiting_gpus()));
    if (message->omitted_jobs() > 0) {
      words.push_back(fmt::format("{} omitted", message->omitted_jobs()));
    }
    messages.push_back(words);
  }
  void Finish(const absl::Status& status) override { ends.push_back(status); }

  std::vector<std::vector<std::string>> messages;
  std::vector<absl::Status> ends;
};

class QueueStreamTest : public ::testing::Test {
 protected:
  std::shared_ptr<QueueStream> Open(QueueFilter filter = {}) {
    return std::make_shared<QueueStream>(std::move(filter), Credentials{}, writer_,
                                         std::make_shared<std::atomic<bool>>(false));
  }
  FakeWriter writer_;
};

TEST_F(QueueStreamTest, TellsAllThenWhatChanges) {
  const auto stream = Open();
  stream->Offer(State({}), All());
  stream->OnWritten();
  stream->Offer(State({{"a/x"}, {"b/y"}}), All());
  stream->OnWritten();
  stream->Offer(State({{"b/y", "Fragmented"}}), All());
  EXPECT_THAT(writer_.messages,
              ElementsAre(ElementsAre("all", "of 0 jobs, 0 GPUs"),
                          ElementsAre("changes", "+a/x NoCapacity", "+b/y NoCapacity",
                                      "of 2 jobs, 16 GPUs"),
                          ElementsAre("changes", "+b/y Fragmented", "-a/x", "of 1 jobs, 8 GPUs")));
}

TEST_F(QueueStreamTest, ASlowReaderGetsTheNewestStateOnly) {
  const auto stream = Open();
  stream->Offer(State({}), All());
  for (int i = 0; i < 1000; ++i) {
    stream->Offer(State({{fmt::format("a/job{}", i)}}), All());
  }
  ASSERT_EQ(writer_.messages.size(), 1u) << "nothing is written before the first is read";
  stream->OnWritten();
  stream->OnWritten();
  EXPECT_EQ(writer_.messages.size(), 2u);
  EXPECT_THAT(writer_.messages.back(),
              ElementsAre("changes", "+a/job999 NoCapacity", "of 1 jobs, 8 GPUs"));
}

TEST_F(QueueStreamTest, JobsOfOthersCountAndHaveNoName) {
  const auto stream = Open();
  stream->Offer(State({{"a/x"}, {"b/y"}}), Only("a"));
  stream->OnWritten();
  stream->Offer(State({{"a/x"}, {"b/y", "Fragmented"}}), Only("a"));
  EXPECT_THAT(writer_.messages,
              ElementsAre(ElementsAre("all", "+a/x NoCapacity", "of 2 jobs, 16 GPUs")))
      << "what changed is not for these eyes";
  stream->Offer(State({{"a/x"}, {"b/y"}}), Only("b"));
  EXPECT_THAT(writer_.messages.back(),
              ElementsAre("changes", "+b/y NoCapacity", "-a/x", "of 2 jobs, 16 GPUs"))
      << "rights changed";
}

TEST_F(QueueStreamTest, FiltersByNamespaceAndQueue) {
  const auto of_namespace = Open({.namespace_name = "b"});
  of_namespace->Offer(State({{"a/x"}, {"b/y"}}), All());
  EXPECT_THAT(writer_.messages.back(), ElementsAre("all", "+b/y NoCapacity", "of 2 jobs, 16 GPUs"));
  const auto of_queue = Open({.queue = "other"});
  of_queue->Offer(State({{"a/x"}, {"b/y"}}), All());
  EXPECT_THAT(writer_.messages.back(), ElementsAre("all", "of 2 jobs, 16 GPUs"));
}

TEST_F(QueueStreamTest, AMessageIsBounded) {
  std::vector<Row> rows;
  for (size_t i = 0; i < kQueueRowsMax + 7; ++i) {
    rows.push_back({fmt::format("a/job{}", i)});
  }
  const auto stream = Open();
  stream->Offer(State(rows), All());
  ASSERT_EQ(writer_.messages.size(), 1u);
  EXPECT_EQ(writer_.messages[0].size(), kQueueRowsMax + 3);
  EXPECT_EQ(writer_.messages[0].back(), "7 omitted");
}

TEST_F(QueueStreamTest, EndsOnce) {
  const auto stream = Open();
  EXPECT_FALSE(stream->ended());
  stream->End(absl::UnavailableError("bye"));
  stream->End(absl::CancelledError("late"));
  stream->Offer(State({{"a/x"}}), All());
  stream->OnWritten();
  EXPECT_TRUE(stream->ended());
  EXPECT_THAT(writer_.messages, IsEmpty());
  EXPECT_THAT(writer_.ends, ElementsAre(absl::UnavailableError("bye")));
}

}  // namespace
}  // namespace asterism::controller
