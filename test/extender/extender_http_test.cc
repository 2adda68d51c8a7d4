// The extender behind the HTTP server, as kube-scheduler sees it.
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/notification.h"
#include "base/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "scheduler/extender/extender.h"
#include "server/http_server.h"
#include "test/extender/view_builder.h"
#include "test/server/http_test_client.h"

namespace asterism::scheduler {
namespace {

using server::HttpRequest;
using server::HttpResponse;
using server::testing::HttpTestClient;
using server::testing::TestAnswer;
using testing::ArgsJson;
using ::testing::IsEmpty;
using testing::ViewBuilder;

static_assert(server::kBodyPadding >= kExtenderBodyPadding);

class ExtenderHttpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    builder_.AddBlock("llama", 0, "gpu-0-1", 1, "");
    cell_.Publish(builder_.Build());
    server::HttpRoutes routes;
    routes.Add("POST", "/extender/filter", [this](const HttpRequest& in, HttpResponse& out) {
      out.code = extender_.Filter(in.body, out.body);
    });
    routes.Add("POST", "/extender/prioritize", [this](const HttpRequest& in, HttpResponse& out) {
      out.code = extender_.Prioritize(in.body, out.body);
    });
    auto server = server::HttpServer::Start(clock_, std::move(routes), metrics_,
                                            {.address = "127.0.0.1", .threads = 2});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  base::SystemClock clock_;
  base::MetricRegistry registry_;
  server::HttpServerMetrics metrics_{registry_};
  base::SnapshotCell<LedgerView> cell_;
  std::atomic<ExtenderReadiness> readiness_{ExtenderReadiness::kReady};
  ViewBuilder builder_{{.supernodes = 2, .nodes_per_supernode = 4}};
  Extender extender_{clock_, cell_, [this] { return readiness_.load(); }, registry_, {}};
  std::unique_ptr<server::HttpServer> server_;
};

TEST_F(ExtenderHttpTest, AnswersTenThousandCallsOnOneConnection) {
  HttpTestClient client(server_->port());
  const std::string body = ArgsJson({.job_uid = "llama", .extra_bytes = 4000}, {"gpu-0-1"});
  std::string first;
  for (int i = 0; i < 10000; ++i) {
    const TestAnswer answer = client.Post("/extender/filter", body);
    ASSERT_EQ(answer.code, 200);
    ASSERT_THAT(answer.Header("Transfer-Encoding"), IsEmpty());
    ASSERT_EQ(answer.Header("Content-Length"), std::to_string(answer.body.size()));
    if (i == 0) {
      first = answer.body;
      EXPECT_EQ(nlohmann::json::parse(first).at("NodeNames"), nlohmann::json::array({"gpu-0-1"}));
    }
    ASSERT_EQ(answer.body, first);
  }
  EXPECT_EQ(server_->connection_count(), 1);
}

TEST_F(ExtenderHttpTest, AStandbyAnswers503) {
  readiness_ = ExtenderReadiness::kStandby;
  HttpTestClient client(server_->port());
  const std::string body = ArgsJson({.job_uid = "llama"}, {"gpu-0-1"});
  EXPECT_EQ(client.Post("/extender/filter", body).code, 503);
  EXPECT_EQ(client.Post("/extender/prioritize", body).code, 503);
  readiness_ = ExtenderReadiness::kReady;
  EXPECT_EQ(client.Post("/extender/filter", body).code, 200);
}

// For the thread sanitizer too: two I/O threads, a writer that publishes new ledgers and new sets
// of nodes, and every answer stays one of those that some version of the ledger gives.
TEST_F(ExtenderHttpTest, AnswersStayRightWhileTheLedgerChanges) {
  std::atomic<bool> done{false};
  base::ThreadExecutor writer("writer");
  absl::Notification stopped;
  writer.Post([&] {
    ViewBuilder larger({.supernodes = 3, .nodes_per_supernode = 4});
    larger.AddBlock("llama", 0, "gpu-0-1", 1, "");
    while (!done) {
      cell_.Publish(builder_.Build());
      cell_.Publish(larger.Build());
    }
    stopped.Notify();
  });
  base::ThreadExecutor other("other-caller");
  absl::Notification other_done;
  const auto call = [this] {
    HttpTestClient client(server_->port());
    const std::string gang = ArgsJson({.job_uid = "llama"}, {"gpu-0-1"});
    const std::string single = ArgsJson({.gpus = 8}, {"gpu-0-0", "gpu-0-1", "gpu-1-0"});
    for (int i = 0; i < 300; ++i) {
      EXPECT_EQ(nlohmann::json::parse(client.Post("/extender/filter", gang).body).at("NodeNames"),
                nlohmann::json::array({"gpu-0-1"}));
      EXPECT_EQ(nlohmann::json::parse(client.Post("/extender/filter", single).body).at("NodeNames"),
                nlohmann::json::array({"gpu-0-0", "gpu-1-0"}));
      EXPECT_EQ(client.Post("/extender/prioritize", single).code, 200);
    }
  };
  other.Post([&] {
    call();
    other_done.Notify();
  });
  call();
  other_done.WaitForNotification();
  done = true;
  stopped.WaitForNotification();
}

}  // namespace
}  // namespace asterism::scheduler
