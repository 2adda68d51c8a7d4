#include "server/http_server.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/executor.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/health.h"
#include "test/server/http_test_client.h"

namespace asterism::server {
namespace {

using ::testing::HasSubstr;
using testing::HttpTestClient;
using ::testing::IsEmpty;
using testing::TestAnswer;

class HttpServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.address = "127.0.0.1";
    options_.sweep_interval = absl::Milliseconds(1);
    routes_.Add("POST", "/echo", [this](const HttpRequest& request, HttpResponse& response) {
      calls_.fetch_add(1);
      // The promise of the padding.
      for (size_t i = 0; i < kBodyPadding; ++i) {
        EXPECT_EQ(request.body.data()[request.body.size() + i], '\0');
      }
      response.body = request.body;
    });
    routes_.Add("GET", "/page", [](const HttpRequest& request, HttpResponse& response) {
      response.content_type = "text/html";
      response.body = fmt::format("page {}", request.query);
    });
    routes_.Add("GET", "/throws", [](const HttpRequest&, HttpResponse&) {
      throw std::runtime_error("secret detail");
    });
  }

  void StartServer() {
    absl::StatusOr<std::unique_ptr<HttpServer>> server =
        HttpServer::Start(clock_, std::move(routes_), metrics_, options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  // Moves the simulated time on until the server does something.
  absl::Duration AdvanceUntilReadable(HttpTestClient& client) {
    const base::SteadyTime begin = clock_.SteadyNow();
    for (int i = 0; i < 5000 && !client.Readable(2); ++i) {
      clock_.Advance(absl::Seconds(1));
    }
    return clock_.SteadyNow() - begin;
  }

  base::SimClock clock_;
  base::MetricRegistry registry_;
  HttpServerMetrics metrics_{registry_};
  HttpRoutes routes_;
  HttpServerOptions options_;
  std::atomic<int> calls_{0};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersAPost) {
  StartServer();
  HttpTestClient client(server_->port());
  const TestAnswer answer = client.Post("/echo", "hello");
  EXPECT_EQ(answer.code, 200);
  EXPECT_EQ(answer.body, "hello");
  EXPECT_EQ(answer.Header("Content-Type"), "application/json");
  EXPECT_EQ(answer.Header("Content-Length"), "5");
  EXPECT_EQ(answer.Header("Date"), "Thu, 01 Jan 2026 00:00:00 GMT");
  EXPECT_THAT(answer.Header("Transfer-Encoding"), IsEmpty());
  EXPECT_THAT(answer.Header("Connection"), IsEmpty());
}

TEST_F(HttpServerTest, SplitsPathAndQuery) {
  StartServer();
  HttpTestClient client(server_->port());
  EXPECT_EQ(client.Get("/page?a=1&b=2").body, "page a=1&b=2");
  EXPECT_EQ(client.Get("/page?").body, "page ");
  EXPECT_EQ(client.Get("/page").body, "page ");
}

TEST_F(HttpServerTest, KeepsOneConnectionOverTenThousandRequests) {
  StartServer();
  HttpTestClient client(server_->port());
  for (int i = 0; i < 10000; ++i) {
    const std::string body = std::to_string(i);
    const TestAnswer answer = client.Post("/echo", body);
    ASSERT_EQ(answer.code, 200) << i;
    ASSERT_EQ(answer.body, body);
  }
  EXPECT_EQ(calls_, 10000);
  EXPECT_EQ(server_->connection_count(), 1);
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
  StartServer();
  HttpTestClient client(server_->port());
  client.Send(
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\n\r\na"
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\n\r\nb");
  EXPECT_EQ(client.Receive(false).body, "a");
  EXPECT_EQ(client.Receive(false).body, "b");
}

TEST_F(HttpServerTest, HeadHasTheLengthAndNoBody) {
  StartServer();
  HttpTestClient client(server_->port());
  client.Send("HEAD /page HTTP/1.1\r\nHost: t\r\n\r\n");
  const TestAnswer answer = client.Receive(/*head_request=*/true);
  EXPECT_EQ(answer.code, 200);
  EXPECT_EQ(answer.Header("Content-Length"), "5");
  EXPECT_EQ(client.Get("/page").body, "page ");  // nothing of a body was left in the stream
}

TEST_F(HttpServerTest, UnknownPathAndMethodSayWhatIsThere) {
  StartServer();
  HttpTestClient client(server_->port());
  TestAnswer answer = client.Get("/nowhere");
  EXPECT_EQ(answer.code, 404);
  EXPECT_EQ(answer.body, "no such path: /nowhere\n");
  answer = client.Get("/echo");
  EXPECT_EQ(answer.code, 405);
  EXPECT_EQ(answer.Header("Allow"), "POST");
  EXPECT_EQ(answer.body, "/echo does not take GET: use POST\n");
  answer = client.Post("/page", "");
  EXPECT_EQ(answer.code, 405);
  EXPECT_EQ(answer.Header("Allow"), "GET, HEAD");
  EXPECT_EQ(client.Get("/page").code, 200) << "the connection goes on";
}

TEST_F(HttpServerTest, AThrowingHandlerIs500AndTheServerGoesOn) {
  StartServer();
  HttpTestClient client(server_->port());
  const TestAnswer answer = client.Get("/throws");
  EXPECT_EQ(answer.code, 500);
  EXPECT_THAT(answer.body, ::testing::Not(HasSubstr("secret detail")));
  EXPECT_EQ(client.Get("/page").code, 200);
}

TEST_F(HttpServerTest, TakesABodyOfEightMebibytesAndNotAByteMore) {
  StartServer();
  const std::string limit(8 << 20, 'x');
  HttpTestClient client(server_->port());
  const TestAnswer answer = client.Post("/echo", limit);
  EXPECT_EQ(answer.code, 200);
  EXPECT_TRUE(answer.body == limit);
  // The whole body is sent before the client reads: the refusal must survive that.
  const TestAnswer refused = client.Post("/echo", limit + "x");
  EXPECT_EQ(refused.code, 413);
  EXPECT_EQ(refused.body, "the body is longer than the limit of 8388608 bytes\n");
  EXPECT_TRUE(client.AtEnd());
}

TEST_F(HttpServerTest, RefusesAHugeContentLengthBeforeTheBody) {
  StartServer();
  for (const char* length : {"9000000000000000000", "18446744073709551615"}) {
    HttpTestClient client(server_->port());
    client.Send(
        fmt::format("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n\r\n", length));
    EXPECT_EQ(client.Receive(false).code, 413) << length;
  }
}

TEST_F(HttpServerTest, BoundsTheBodiesInFlight) {
  options_.bodies_in_flight_bytes_max = 1000;
  StartServer();
  HttpTestClient slow(server_->port());
  slow.Send(
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 900\r\nExpect: 100-continue\r\n\r\n");
  ASSERT_EQ(slow.Receive(false).code, 100);
  HttpTestClient second(server_->port());
  EXPECT_EQ(second.Post("/echo", std::string(200, 'x')).code, 503);
  slow.Send(std::string(900, 'y'));
  EXPECT_EQ(slow.Receive(false).code, 200);
  HttpTestClient third(server_->port());
  EXPECT_EQ(third.Post("/echo", std::string(200, 'x')).code, 200) << "the share is given back";
}

TEST_F(HttpServerTest, AsksForTheBodyWhenTheClientWaits) {
  StartServer();
  HttpTestClient client(server_->port());
  client.Send(
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.Receive(false).code, 100);
  client.Send("ok");
  EXPECT_EQ(client.Receive(false).body, "ok");
}

TEST_F(HttpServerTest, RefusesBadRequestsWithTheReason) {
  StartServer();
  const struct {
    std::string request;
    int code;
    const char* text;
  } kCases[] = {
      {"nonsense\r\n\r\n", 400, "not an HTTP/1.1 request"},
      {std::string("\0\1\2\3\r\n\r\n", 8), 400, "not an HTTP/1.1 request"},
      {"GET /page HTTP/9.9\r\n\r\n", 400, "not an HTTP/1.1 request"},
      {"GET /page HTTP/1.1\r\n\r\n", 400, "Host"},
      {"GET /page HTTP/1.1\r\nHost t\r\n\r\n", 400, "not an HTTP/1.1 request"},
      {"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: ten\r\n\r\n", 400, "Content-Length"},
      {"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400,
       "Content-Length"},
      {"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
       400, ""},
      {"POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
       411, "send Content-Length"},
      {"GET /page HTTP/1.1\r\nHost: t\r\nX: " + std::string(20000, 'x') + "\r\n\r\n", 431,
       "16384 bytes"},
      {"GET /" + std::string(100000, 'x') + " HTTP/1.1\r\n\r\n", 431, "16384 bytes"},
  };
  for (const auto& [request, code, text] : kCases) {
    HttpTestClient client(server_->port());
    client.Send(request);
    const TestAnswer answer = client.Receive(false);
    EXPECT_EQ(answer.code, code) << request.substr(0, 100);
    EXPECT_THAT(answer.body, HasSubstr(text)) << request.substr(0, 100);
    EXPECT_EQ(answer.Header("Connection"), "close");
    EXPECT_TRUE(client.AtEnd());
  }
  EXPECT_EQ(HttpTestClient(server_->port()).Get("/page").code, 200);
}

TEST_F(HttpServerTest, OldClientsGetTheirWay) {
  StartServer();
  HttpTestClient client(server_->port());
  client.Send("GET /page HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(client.Receive(false).Header("Connection"), "keep-alive");
  client.Send("GET /page HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.Receive(false).Header("Connection"), "close");
  EXPECT_TRUE(client.AtEnd());
}

TEST_F(HttpServerTest, ClosesWhenTheClientAsksForIt) {
  StartServer();
  HttpTestClient client(server_->port());
  client.Send("GET /page HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.Receive(false).code, 200);
  EXPECT_TRUE(client.AtEnd());
}

TEST_F(HttpServerTest, AHalfRequestThatEndsIsDroppedAndTheServerGoesOn) {
  StartServer();
  for (const char* half : {"", "P", "POST /echo HT", "POST /echo HTTP/1.1\r\nHost: t\r\n",
                           "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nhalf"}) {
    HttpTestClient client(server_->port());
    client.Send(half);
    client.CloseWriteSide();
    EXPECT_TRUE(client.AtEnd()) << half;
  }
  EXPECT_EQ(calls_, 0);
  EXPECT_EQ(HttpTestClient(server_->port()).Get("/page").code, 200);
}

TEST_F(HttpServerTest, ASlowHeaderIs408) {
  StartServer();
  HttpTestClient client(server_->port());
  client.Send("POST /echo HTTP/1.1\r\n");
  EXPECT_GE(AdvanceUntilReadable(client), options_.header_timeout);
  const TestAnswer answer = client.Receive(false);
  EXPECT_EQ(answer.code, 408);
  EXPECT_EQ(answer.body, "the header did not come in time\n");
  EXPECT_TRUE(client.AtEnd());
}

TEST_F(HttpServerTest, DrippingBytesDoNotBuyTime) {
  StartServer();
  HttpTestClient client(server_->port());
  client.Send("GET /page HTTP/1.1\r\nX: ");
  int dripped = 0;
  for (; dripped < 1000 && !client.Readable(2); ++dripped) {
    client.Send("x");
    clock_.Advance(absl::Seconds(1));
  }
  EXPECT_LT(dripped, 100);
  EXPECT_EQ(client.Receive(false).code, 408);
}

TEST_F(HttpServerTest, ASlowBodyIs408) {
  StartServer();
  HttpTestClient client(server_->port());
  client.Send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nhalf");
  EXPECT_GE(AdvanceUntilReadable(client), options_.body_timeout);
  const TestAnswer answer = client.Receive(false);
  EXPECT_EQ(answer.code, 408);
  EXPECT_EQ(answer.body, "the body did not come in time\n");
}

TEST_F(HttpServerTest, SilentConnectionsAreClosed) {
  StartServer();
  HttpTestClient silent(server_->port());
  EXPECT_GE(AdvanceUntilReadable(silent), options_.header_timeout);
  EXPECT_TRUE(silent.AtEnd());
  HttpTestClient idle(server_->port());
  EXPECT_EQ(idle.Get("/page").code, 200);
  EXPECT_GE(AdvanceUntilReadable(idle), options_.idle_timeout);
  EXPECT_TRUE(idle.AtEnd());
}

TEST_F(HttpServerTest, AClientThatNeverReadsIsCutOff) {
  routes_.Add("GET", "/large", [](const HttpRequest&, HttpResponse& response) {
    response.body.assign(64 << 20, 'x');
  });
  StartServer();
  HttpTestClient client(server_->port());
  client.Send("GET /large HTTP/1.1\r\nHost: t\r\n\r\n");
  while (server_->connection_count() != 1) {
  }
  for (int i = 0; i < 5000 && server_->connection_count() > 0; ++i) {
    HttpTestClient(server_->port()).Get("/page");  // lets the I/O thread run
    clock_.Advance(absl::Seconds(1));
    if (server_->connection_count() == 0) {
      break;
    }
  }
  EXPECT_EQ(client.Receive(false).code, 0);
}

TEST_F(HttpServerTest, ClosesWhatIsOverTheConnectionLimit) {
  options_.connections_max = 3;
  StartServer();
  std::vector<std::unique_ptr<HttpTestClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<HttpTestClient>(server_->port()));
    EXPECT_EQ(clients.back()->Get("/page").code, 200);
  }
  HttpTestClient fourth(server_->port());
  EXPECT_TRUE(fourth.AtEnd());
  EXPECT_EQ(clients[0]->Get("/page").code, 200);
  EXPECT_THAT(registry_.Expose(), HasSubstr("asterism_http_connections_refused_total 1"));
}

TEST_F(HttpServerTest, OnePeerCannotKeepProbesOut) {
  options_.connections_max = 16;
  options_.connections_per_peer_max = 4;
  StartServer();
  std::vector<std::unique_ptr<HttpTestClient>> strangers;
  const auto comes = [&](uint8_t host) {
    strangers.push_back(std::make_unique<HttpTestClient>(server_->port(), testing::TestHost{host}));
    return strangers.back()->Get("/page").code == 200;
  };
  EXPECT_TRUE(comes(2) && comes(2) && comes(2) && comes(2));
  EXPECT_FALSE(comes(2));
  EXPECT_TRUE(comes(3) && comes(3) && comes(3) && comes(3));
  EXPECT_TRUE(comes(4) && comes(4) && comes(4) && comes(4));
  EXPECT_TRUE(comes(1)) << "the last quarter is for peers that have none";
  EXPECT_FALSE(comes(1));
  strangers.erase(strangers.begin(), strangers.begin() + 2);
  for (int i = 0; i < 1000 && server_->connection_count() > 11; ++i) {
    strangers[0]->Readable(2);
  }
  EXPECT_TRUE(comes(2)) << "two of its connections are closed";
}

TEST_F(HttpServerTest, ServesManyConnectionsOnTwoThreads) {
  options_.threads = 2;
  StartServer();
  std::vector<std::unique_ptr<HttpTestClient>> clients;
  for (int i = 0; i < 400; ++i) {
    clients.push_back(std::make_unique<HttpTestClient>(server_->port()));
  }
  for (int round = 0; round < 3; ++round) {
    for (auto& client : clients) {
      client->Send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\nhi");
    }
    for (auto& client : clients) {
      EXPECT_EQ(client->Receive(false).body, "hi");
    }
  }
  EXPECT_EQ(server_->connection_count(), 400);
}

TEST_F(HttpServerTest, AnswersInFullWhenTheyAreLarge) {
  routes_.Add("GET", "/large", [](const HttpRequest&, HttpResponse& response) {
    response.body.assign(3 << 20, 'y');
    response.body += "end";
  });
  StartServer();
  HttpTestClient client(server_->port());
  const TestAnswer answer = client.Get("/large");
  EXPECT_EQ(answer.body.size(), (3u << 20) + 3);
  EXPECT_TRUE(answer.body.ends_with("yend"));
}

TEST_F(HttpServerTest, StopLetsARunningRequestFinish) {
  absl::Notification entered;
  absl::Notification release;
  routes_.Add("GET", "/slow", [&](const HttpRequest&, HttpResponse& response) {
    entered.Notify();
    release.WaitForNotification();
    response.body = "done";
  });
  StartServer();
  HttpTestClient client(server_->port());
  client.Send("GET /slow HTTP/1.1\r\nHost: t\r\n\r\n");
  entered.WaitForNotification();
  base::ThreadExecutor stopper("stopper");
  absl::Notification stopped;
  absl::Notification stopping;
  stopper.Post([&] {
    stopping.Notify();
    server_->Stop();
    stopped.Notify();
  });
  stopping.WaitForNotification();
  EXPECT_FALSE(stopped.HasBeenNotified());
  release.Notify();
  const TestAnswer answer = client.Receive(false);
  EXPECT_EQ(answer.body, "done");
  EXPECT_TRUE(client.AtEnd());
  stopped.WaitForNotification();
}

TEST_F(HttpServerTest, StopClosesIdleConnectionsAndRefusesNewOnes) {
  options_.threads = 2;
  StartServer();
  const uint16_t port = server_->port();
  HttpTestClient first(port);
  HttpTestClient second(port);
  EXPECT_EQ(first.Get("/page").code, 200);
  EXPECT_EQ(second.Get("/page").code, 200);
  server_->Stop();
  server_->Stop();
  EXPECT_TRUE(first.AtEnd());
  EXPECT_TRUE(second.AtEnd());
  EXPECT_FALSE(HttpTestClient(port).connected());
}

TEST_F(HttpServerTest, StopDoesNotWaitForAHalfRequestLongerThanItsGrace) {
  options_.stop_grace = absl::Milliseconds(20);
  StartServer();
  HttpTestClient client(server_->port());
  EXPECT_EQ(client.Get("/page").code, 200);
  client.Send(
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.Receive(false).code, 100);
  server_->Stop();
  EXPECT_TRUE(client.AtEnd());
}

TEST_F(HttpServerTest, ATakenPortIsNamedWithTheRemedy) {
  StartServer();
  HttpServerOptions same = options_;
  same.port = server_->port();
  const absl::Status status = HttpServer::Start(clock_, HttpRoutes(), metrics_, same).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(fmt::format("127.0.0.1 port {}", same.port)),
                    HasSubstr("another process has the port: stop it or set another port")));
}

TEST_F(HttpServerTest, BadOptionsAreNamed) {
  const auto start = [&](HttpServerOptions options) {
    return std::string(
        HttpServer::Start(clock_, HttpRoutes(), metrics_, options).status().message());
  };
  EXPECT_THAT(start({.address = "localhost"}), HasSubstr("\"localhost\" is not an IP address"));
  EXPECT_THAT(start({.address = "192.0.2.1"}), HasSubstr("does not have that address"));
  EXPECT_THAT(start({.threads = 0}), HasSubstr("threads: 0"));
  EXPECT_THAT(start({.idle_timeout = absl::ZeroDuration()}), HasSubstr("above zero"));
  EXPECT_THAT(start({.header_bytes_max = 1}), HasSubstr("header_bytes_max"));
}

TEST_F(HttpServerTest, CountsAnswers) {
  StartServer();
  HttpTestClient client(server_->port());
  client.Get("/page");
  client.Get("/nowhere");
  const std::string page = registry_.Expose();
  EXPECT_THAT(page, HasSubstr("asterism_http_answers_total{code=\"200\"} 1"));
  EXPECT_THAT(page, HasSubstr("asterism_http_answers_total{code=\"404\"} 1"));
  EXPECT_THAT(page, HasSubstr("asterism_http_connections 1"));
}

TEST_F(HttpServerTest, HealthSaysWhatIsMissing) {
  std::vector<std::string> missing = {"pods: first list not complete", "lease: not leader"};
  AddHealthRoutes(routes_, {.live = {}, .ready = [&] { return missing; }});
  StartServer();
  HttpTestClient client(server_->port());
  EXPECT_EQ(client.Get("/healthz").code, 200);
  const TestAnswer answer = client.Get("/readyz");
  EXPECT_EQ(answer.code, 503);
  EXPECT_EQ(answer.body,
            "not ready: pods: first list not complete\nnot ready: lease: not leader\n");
  missing.clear();
  EXPECT_EQ(client.Get("/readyz").body, "ok\n");
}

}  // namespace
}  // namespace asterism::server
