// File: test/controller/grpc_fixture.h
//
// A leading controller on the fake cluster, and its gRPC service on a real port: the cluster lives
// under simulated time on the test's thread, gRPC on its own threads, and the test pumps between.
//
//   class MyTest : public GrpcFixture {};
//   Serve();
//   v1::PlaceResponse response;
//   grpc::Status status = Call([&](auto* async, auto* context, auto done) {
//     async->Place(context, &request, &response, std::move(done));
//   }, {.token = kAda});
//
// Thread-safety: the test's thread only. Cost: a server with some threads; a call takes about a
// millisecond.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "asterism/v1/placement.grpc.pb.h"
#include "base/executor.h"
#include "controller/agent_edge.h"
#include "controller/grpc_server.h"
#include "controller/placement_edge.h"
#include "fake_cluster.h"
#include "fake_reviews.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace asterism::controller {

inline constexpr char kAda[] = "token-of-ada";    // may do everything in "research"
inline constexpr char kBob[] = "token-of-bob";    // has no right at all
inline constexpr char kRoot[] = "token-of-root";  // may do everything everywhere

// Lets other threads post to an executor of simulated time; what they post runs in Pump.
class PumpedExecutor final : public base::Executor {
 public:
  explicit PumpedExecutor(base::SimExecutor& sim) : sim_(sim) {}

  void Post(base::Work work) override;
  // Timers: on the test's thread only.
  base::TimerId PostAfter(absl::Duration delay, base::Work work) override {
    return sim_.PostAfter(delay, std::move(work));
  }
  void Cancel(base::TimerId timer) override { sim_.Cancel(timer); }
  bool IsCurrent() const override { return true; }

  void Pump();

 private:
  base::SimExecutor& sim_;
  absl::Mutex mutex_;
  std::deque<base::Work> posted_ ABSL_GUARDED_BY(mutex_);
};

// One who watches the queue. Reads by itself, or only when told to.
class QueueReader final : public grpc::ClientReadReactor<v1::WatchQueueResponse> {
 public:
  QueueReader(v1::Placement::Stub& stub, const std::string& token,
              const v1::WatchQueueRequest& request, bool reads_by_itself);

  void ReadOne() { StartRead(&message_); }
  void Cancel();
  bool done() const { return done_.HasBeenNotified(); }
  grpc::Status status() const;  // once done
  std::vector<v1::WatchQueueResponse> messages() const;
  // Names of the jobs as the messages so far tell them, "namespace/name", with their reasons.
  std::map<std::string, std::string> jobs() const;

 private:
  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  const v1::WatchQueueRequest request_;
  const bool reads_by_itself_;
  bool held_ = false;  // so that the call does not end between two reads
  grpc::ClientContext context_;
  v1::WatchQueueResponse message_;
  mutable absl::Mutex mutex_;
  std::vector<v1::WatchQueueResponse> messages_ ABSL_GUARDED_BY(mutex_);
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
  absl::Notification done_;
};

struct CallOptions {
  std::string token = kAda;                            // empty: none
  absl::Duration deadline = absl::InfiniteDuration();  // infinite: none is stated
};

class GrpcFixture : public ::testing::Test {
 protected:
  GrpcFixture();
  ~GrpcFixture() override;

  // Address and port come by themselves.
  void Serve(PlacementEdgeOptions edge_options = {}, GrpcServerOptions options = {.plain = true});
  void StopServing();

  std::shared_ptr<grpc::Channel> Channel(const std::shared_ptr<grpc::ChannelCredentials>&
                                             credentials = grpc::InsecureChannelCredentials());
  using Start = std::function<void(v1::Placement::StubInterface::async_interface*,
                                   grpc::ClientContext*, std::function<void(grpc::Status)>)>;
  grpc::Status Call(const Start& start, const CallOptions& options = {});
  grpc::Status CallOn(v1::Placement::Stub& stub, const Start& start, const CallOptions& options);
  std::unique_ptr<QueueReader> Watch(const std::string& token,
                                     const v1::WatchQueueRequest& request = {},
                                     bool reads_by_itself = true);
  // Lets both worlds go on until it is so; false after 20 s.
  bool Eventually(const std::function<bool()>& reached);
  void PumpFor(absl::Duration real_time);

  // A job like those of FakeCluster::CreateJob, as JSON.
  static std::string JobJson(int gpus, const nlohmann::json& spec = {},
                             const std::string& name_space = "research");
  v1::Decision Place(int gpus, const nlohmann::json& spec = {});
  v1::Decision WhatIf(int gpus, const std::vector<v1::Change>& changes);
  grpc::Status last_status() const { return last_status_; }

  FakeCluster cluster_{1};
  FakeReviews reviews_{cluster_.server()};
  PumpedExecutor core_{cluster_.executor()};
  RelayConfiguration relays_;  // of the agents; before Serve
  std::unique_ptr<PlacementEdge> edge_;
  std::unique_ptr<AgentEdge> agents_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<v1::Placement::Stub> stub_;
  std::multimap<std::string, std::string> last_trailers_;

 private:
  grpc::Status last_status_;
};

}  // namespace asterism::controller
