// Cost of the extender's answers.
//
//   extender_bench            a table; exit 1 when a budget is missed
//   extender_bench --json     one JSON object a line
//
// Every call meets a new version of the ledger, as in a burst of pods: nothing that is kept for a
// version helps. 5 of 9 nodes have room. Budgets hold for a build with -march=x86-64-v3 and NDEBUG.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "boost/asio.hpp"
#include "fmt/format.h"
#include "scheduler/extender/answer_writer.h"
#include "scheduler/extender/extender.h"
#include "scheduler/extender/node_score.h"
#include "scheduler/extender/request_reader.h"
#include "server/http_server.h"
#include "test/extender/view_builder.h"
#include "test/server/http_test_client.h"

namespace asterism::scheduler {
namespace {

using extender::NodeScores;
using extender::NodeTable;
using extender::PodDemand;
using extender::RequestReader;
using extender::Verb;
using testing::ArgsJson;
using testing::kGpuSlot;
using testing::PaddedBody;
using testing::PodShape;
using testing::ViewBuilder;

using Operation = std::function<void()>;

// A cluster, two versions of its ledger in turn, and the requests about it.
class Bench {
 public:
  explicit Bench(size_t nodes)
      : builder_({.supernodes = nodes / 4,
                  .nodes_per_supernode = 4,
                  .name_prefix = "gpu-h100-eu-central-1-pool-a-machine"}),
        names_(builder_.NodeNames()) {
    for (size_t i = 0; i < names_.size(); ++i) {
      builder_.Use(names_[i], kGpuSlot, i % 9 < 4 ? 8 : static_cast<int64_t>(i % 3) * 2);
    }
    builder_.Node(names_[0]).used[kGpuSlot] = 0;
    builder_.AddBlock("llama", 0, names_[0], 1, "");
    for (auto& view : views_) {
      view = builder_.Build();
    }
    // kube-scheduler starts each list somewhere else in its order.
    std::rotate(names_.begin(), names_.begin() + static_cast<ptrdiff_t>(nodes / 3), names_.end());
    table_ = std::make_shared<const NodeTable>(*views_[0]);
    reader_.Use(table_);
    single_.emplace(ArgsJson({.gpus = 2, .extra_bytes = kPodBytes}, names_));
    pinned_.emplace(
        ArgsJson({.job_uid = "llama", .extra_bytes = kPodBytes}, {builder_.NodeName(0, 0)}));
    cell_.Publish(views_[0]);
  }

  void FilterPinned() { Call(&Extender::Filter, *pinned_); }
  void FilterSingle() { Call(&Extender::Filter, *single_); }
  void PrioritizeSingle() { Call(&Extender::Prioritize, *single_); }

  // The parts of PrioritizeSingle and FilterSingle.
  void Parse() {
    CHECK_THAT(reader_.ReadNodes(single_->view(), Verb::kPrioritize, request_).ok(), "parse");
  }
  void Score() {
    const LedgerView& view = NextView();
    const PodDemand demand = extender::DemandOf(request_.pod.requests, view, gpu_resources_);
    const NodeScores scores(view, demand);
    marks_.resize(request_.nodes.ids.size());
    for (size_t i = 0; i < marks_.size(); ++i) {
      marks_[i] = scores.score(request_.nodes.ids[i]);
    }
  }
  void WriteScores() {
    answer_.clear();
    extender::WritePriorities(*table_, request_, marks_, answer_);
  }
  void WriteNames() {
    answer_.clear();
    extender::WriteFilterAnswer(*table_, request_, marks_, {}, answer_);
  }

  Extender& extender() { return extender_; }
  std::string_view pinned_body() const { return pinned_->view(); }

 private:
  static constexpr size_t kPodBytes = 5000;

  const LedgerView& NextView() {
    ++calls_;
    return *views_[calls_ % views_.size()];
  }
  void Call(int (Extender::*verb)(std::string_view, std::string&), const PaddedBody& body) {
    NextView();
    cell_.Publish(views_[calls_ % views_.size()]);
    answer_.clear();
    CHECK_THAT((extender_.*verb)(body.view(), answer_) == 200, answer_);
  }

  base::SystemClock clock_;
  base::MetricRegistry registry_;
  ViewBuilder builder_;
  std::vector<std::string> names_;
  std::array<std::shared_ptr<const LedgerView>, 2> views_;
  size_t calls_ = 0;
  base::SnapshotCell<LedgerView> cell_;
  const std::vector<std::string> gpu_resources_ = {"nvidia.com/gpu"};
  Extender extender_{clock_, cell_, [] { return ExtenderReadiness::kReady; }, registry_, {}};
  std::optional<PaddedBody> single_;
  std::optional<PaddedBody> pinned_;
  std::shared_ptr<const NodeTable> table_;
  RequestReader reader_;
  extender::NodesRequest request_;
  std::vector<uint8_t> marks_;
  std::string answer_;
};

// A pinned call over loopback, kept alive, as kube-scheduler makes it.
class RoundTrip {
 public:
  explicit RoundTrip(Bench& bench) : body_(bench.pinned_body()) {
    server::HttpRoutes routes;
    routes.Add("POST", "/extender/filter",
               [&bench](const server::HttpRequest& in, server::HttpResponse& out) {
                 out.code = bench.extender().Filter(in.body, out.body);
               });
    auto started =
        server::HttpServer::Start(clock_, std::move(routes), metrics_, {.address = "127.0.0.1"});
    CHECK_THAT(started.ok(), started.status().ToString());
    server_ = *std::move(started);
    client_.emplace(server_->port());
  }
  void Call() { CHECK_THAT(client_->Post("/extender/filter", body_).code == 200, "round trip"); }

 private:
  base::SystemClock clock_;
  base::MetricRegistry registry_;
  server::HttpServerMetrics metrics_{registry_};
  const std::string body_;
  std::unique_ptr<server::HttpServer> server_;
  std::optional<server::testing::HttpTestClient> client_;
};

// The same bytes over loopback with nobody in between who thinks: what the kernel and the wake-ups
// of two threads cost on this machine, with a virtual one several times those of a real one.
class RawEcho {
 public:
  RawEcho(size_t request_bytes, size_t answer_bytes)
      : request_(request_bytes, 'x'), answer_(answer_bytes, 'y') {
    server_ = std::thread([this] {
      tcp::socket peer = acceptor_.accept();
      peer.set_option(tcp::no_delay(true));
      std::string in(request_.size(), '\0');
      boost::system::error_code error;
      while (boost::asio::read(peer, boost::asio::buffer(in), error) == in.size()) {
        boost::asio::write(peer, boost::asio::buffer(answer_), error);
      }
    });
    client_.connect(acceptor_.local_endpoint());
    client_.set_option(tcp::no_delay(true));
  }
  ~RawEcho() {
    client_.close();
    server_.join();
  }
  void Call() {
    boost::asio::write(client_, boost::asio::buffer(request_));
    boost::asio::read(client_, boost::asio::buffer(answer_));
  }

 private:
  using tcp = boost::asio::ip::tcp;

  const std::string request_;
  std::string answer_;
  boost::asio::io_context context_;
  tcp::acceptor acceptor_{context_, {boost::asio::ip::address_v4::loopback(), 0}};
  tcp::socket client_{context_};
  std::thread server_;
};

struct Times {
  double median_us = 0;
  double least_us = 0;  // what the machine can do when nobody disturbs it
};

// Of single calls, after a warm-up.
Times Time(const Operation& operation, int runs) {
  const base::SystemClock clock;
  for (int i = 0; i < runs / 10 + 2; ++i) {
    operation();
  }
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) {
    const base::SteadyTime begin = clock.SteadyNow();
    operation();
    times.push_back(absl::ToDoubleMicroseconds(clock.SteadyNow() - begin));
  }
  std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
  return {.median_us = times[static_cast<size_t>(runs / 2)],
          .least_us = *std::min_element(times.begin(), times.end())};
}

class Report {
 public:
  explicit Report(bool json) : json_(json) {}

  // The budget is for the median; a budget of 0 means only stated.
  void Add(std::string_view name, Times times, double budget) {
    const bool ok = budget == 0 || times.median_us <= budget;
    all_ok_ = all_ok_ && ok;
    if (json_) {
      fmt::print(R"({{"name":"{}","unit":"us","value":{:.2f},"least":{:.2f},"budget":{},"ok":{}}})",
                 name, times.median_us, times.least_us,
                 budget == 0 ? "null" : fmt::format("{:g}", budget), ok);
      fmt::print("\n");
    } else {
      fmt::print("{:<44}{:>10.2f} us, least {:>8.2f}{:>14}  {}\n", name, times.median_us,
                 times.least_us, budget == 0 ? "" : fmt::format("budget {:g}", budget),
                 ok ? "" : "MISSED");
    }
    std::fflush(stdout);
  }
  bool all_ok() const { return all_ok_; }

 private:
  const bool json_;
  bool all_ok_ = true;
};

int Measure(bool json) {
  Report report(json);
  Bench small(1280);
  Bench large(12800);
  report.Add("extender_filter_pinned_p50", Time([&] { small.FilterPinned(); }, 20000), 40);
  report.Add("extender_filter_1280_p50", Time([&] { small.FilterSingle(); }, 5000), 60);
  report.Add("extender_prioritize_1280_p50", Time([&] { small.PrioritizeSingle(); }, 5000), 60);
  report.Add("extender_filter_12800_p50", Time([&] { large.FilterSingle(); }, 1000), 250);
  report.Add("extender_prioritize_12800_p50", Time([&] { large.PrioritizeSingle(); }, 1000), 250);
  report.Add("extender_12800_part_parse_p50", Time([&] { large.Parse(); }, 1000), 0);
  report.Add("extender_12800_part_score_p50", Time([&] { large.Score(); }, 1000), 0);
  report.Add("extender_12800_part_write_names_p50", Time([&] { large.WriteNames(); }, 1000), 0);
  report.Add("extender_12800_part_write_scores_p50", Time([&] { large.WriteScores(); }, 1000), 0);
  RoundTrip round_trip(small);
  RawEcho echo(small.pinned_body().size(), 200);
  const Times call = Time([&] { round_trip.Call(); }, 20000);
  const Times raw = Time([&] { echo.Call(); }, 20000);
  report.Add("extender_pinned_loopback_round_trip_p50", call, 0);
  report.Add("loopback_raw_echo_p50", raw, 0);
  // A machine's wake-ups are not ours to shorten: the budget is for what the server adds.
  report.Add(
      "extender_pinned_loopback_over_raw_echo_p50",
      {.median_us = call.median_us - raw.median_us, .least_us = call.least_us - raw.least_us}, 40);
  return report.all_ok() ? 0 : 1;
}

}  // namespace
}  // namespace asterism::scheduler

int main(int argc, char** argv) {
  return asterism::scheduler::Measure(argc > 1 && std::string_view(argv[1]) == "--json");
}
