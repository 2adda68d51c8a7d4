#include "grpc_fixture.h"

#include <chrono>
#include <utility>

#include "controller/grpc_services.h"
#include "fmt/format.h"

namespace asterism::controller {

void PumpedExecutor::Post(base::Work work) {
  absl::MutexLock lock(&mutex_);
  posted_.push_back(std::move(work));
}

void PumpedExecutor::Pump() {
  std::deque<base::Work> posted;
  {
    absl::MutexLock lock(&mutex_);
    posted.swap(posted_);
  }
  for (base::Work& work : posted) {
    std::move(work)();
  }
}

QueueReader::QueueReader(v1::Placement::Stub& stub, const std::string& token,
                         const v1::WatchQueueRequest& request, bool reads_by_itself)
    : request_(request), reads_by_itself_(reads_by_itself) {
  context_.AddMetadata("authorization", "Bearer " + token);
  stub.async()->WatchQueue(&context_, &request_, this);
  if (reads_by_itself_) {
    StartRead(&message_);
  } else {
    held_ = true;
    AddHold();
  }
  StartCall();
}

void QueueReader::Cancel() {
  context_.TryCancel();
  if (std::exchange(held_, false)) {
    RemoveHold();
  }
}

void QueueReader::OnReadDone(bool ok) {
  if (!ok) {
    return;
  }
  {
    absl::MutexLock lock(&mutex_);
    messages_.push_back(message_);
  }
  if (reads_by_itself_) {
    StartRead(&message_);
  }
}

void QueueReader::OnDone(const grpc::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    status_ = status;
  }
  done_.Notify();
}

grpc::Status QueueReader::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

std::vector<v1::WatchQueueResponse> QueueReader::messages() const {
  absl::MutexLock lock(&mutex_);
  return messages_;
}

std::map<std::string, std::string> QueueReader::jobs() const {
  std::map<std::string, std::string> jobs;
  for (const v1::WatchQueueResponse& message : messages()) {
    if (message.snapshot()) {
      jobs.clear();
    }
    for (const v1::WaitingJob& job : message.jobs()) {
      jobs[job.job().namespace_() + "/" + job.job().name()] = job.reason();
    }
    for (const v1::JobName& job : message.gone()) {
      jobs.erase(job.namespace_() + "/" + job.name());
    }
  }
  return jobs;
}

GrpcFixture::GrpcFixture() {
  reviews_.AddUser(kAda, "ada", {"team-a"});
  reviews_.AddUser(kBob, "bob");
  reviews_.AddUser(kRoot, "root");
  for (const char* verb : {"create", "get", "list"}) {
    reviews_.Allow("ada", fmt::format("{} trainingjobs research", verb));
    reviews_.Allow("root", fmt::format("{} trainingjobs *", verb));
  }
  for (const char* user : {"ada", "root"}) {
    reviews_.Allow(user, "get clustertopologies *");
  }
  cluster_.AddNodes(16, 4);
  cluster_.StartController("a");
  EXPECT_TRUE(cluster_.RunUntil([&] { return cluster_.leader() != nullptr; }));
}

GrpcFixture::~GrpcFixture() {
  StopServing();
}

void GrpcFixture::Serve(PlacementEdgeOptions edge_options, GrpcServerOptions options) {
  ControlPlane& plane = *cluster_.leader();
  edge_ = std::make_unique<PlacementEdge>(
      PlacementEdge::Dependencies{cluster_.clock(), core_, cluster_.server(), plane,
                                  cluster_.registry("a")},
      edge_options);
  agents_ = std::make_unique<AgentEdge>(
      AgentEdge::Dependencies{cluster_.clock(), core_, cluster_.server(), plane, plane.agents(),
                              cluster_.registry("a")},
      AgentEdgeOptions{.certificate_needed = !options.plain,
                       .user = "system:serviceaccount:asterism-agents:asterism-agent",
                       .hello_limit = absl::Seconds(2),
                       .streams_waiting_max = 4,
                       .relays = relays_});
  options.listener.address = "127.0.0.1";
  auto server = GrpcServer::Start(
      ServicesOf(*edge_, agents_.get()), [&plane] { return plane.leading(); }, std::move(options));
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  stub_ = v1::Placement::NewStub(Channel());
}

void GrpcFixture::StopServing() {
  stub_.reset();
  server_.reset();
  core_.Pump();
  cluster_.Run(absl::Seconds(1));  // answers that are under way meet the edge alive
  core_.Pump();
  agents_.reset();
  edge_.reset();
}

std::shared_ptr<grpc::Channel> GrpcFixture::Channel(
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
  arguments.SetSslTargetNameOverride("localhost");
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // a window of 64 KiB, however fast it goes
  return grpc::CreateCustomChannel(fmt::format("127.0.0.1:{}", server_->port()), credentials,
                                   arguments);
}

grpc::Status GrpcFixture::Call(const Start& start, const CallOptions& options) {
  return CallOn(*stub_, start, options);
}

grpc::Status GrpcFixture::CallOn(v1::Placement::Stub& stub, const Start& start,
                                 const CallOptions& options) {
  grpc::ClientContext context;
  if (!options.token.empty()) {
    context.AddMetadata("authorization", "Bearer " + options.token);
  }
  if (options.deadline != absl::InfiniteDuration()) {
    context.set_deadline(gpr_time_add(
        gpr_now(GPR_CLOCK_REALTIME),
        gpr_time_from_millis(absl::ToInt64Milliseconds(options.deadline), GPR_TIMESPAN)));
  }
  absl::Notification done;
  start(stub.async(), &context, [&](const grpc::Status& status) {
    last_status_ = status;
    done.Notify();
  });
  EXPECT_TRUE(Eventually([&] { return done.HasBeenNotified(); }));
  done.WaitForNotification();
  last_trailers_.clear();
  for (const auto& [key, value] : context.GetServerTrailingMetadata()) {
    last_trailers_.emplace(std::string(key.data(), key.size()),
                           std::string(value.data(), value.size()));
  }
  return last_status_;
}

std::unique_ptr<QueueReader> GrpcFixture::Watch(const std::string& token,
                                                const v1::WatchQueueRequest& request,
                                                bool reads_by_itself) {
  return std::make_unique<QueueReader>(*stub_, token, request, reads_by_itself);
}

bool GrpcFixture::Eventually(const std::function<bool()>& reached) {
  const base::SystemClock clock;
  const base::SteadyTime end = clock.SteadyNow() + absl::Seconds(20);
  while (!reached()) {
    if (clock.SteadyNow() > end) {
      return false;
    }
    PumpFor(absl::Milliseconds(1));
  }
  return true;
}

void GrpcFixture::PumpFor(absl::Duration real_time) {
  const base::SystemClock clock;
  const base::SteadyTime end = clock.SteadyNow() + real_time;
  do {
    core_.Pump();
    cluster_.Run(absl::Milliseconds(2));
    absl::Notification never;
    never.WaitForNotificationWithTimeout(absl::Microseconds(500));
  } while (clock.SteadyNow() < end);
}

std::string GrpcFixture::JobJson(int gpus, const nlohmann::json& spec,
                                 const std::string& name_space) {
  nlohmann::json whole = {
      {"queue", "default"},
      {"gpus", gpus},
      {"framework", "TorchRun"},
      {"container", {{"image", "train:1"}, {"command", {"torchrun", "train.py"}}}}};
  whole.merge_patch(spec.is_null() ? nlohmann::json::object() : spec);
  const nlohmann::json job = {{"apiVersion", "asterism.dev/v1alpha1"},
                              {"kind", "TrainingJob"},
                              {"metadata", {{"namespace", name_space}, {"name", "asked"}}},
                              {"spec", whole}};
  return job.dump();
}

v1::Decision GrpcFixture::Place(int gpus, const nlohmann::json& spec) {
  v1::PlaceRequest request;
  request.set_training_job_json(JobJson(gpus, spec));
  v1::PlaceResponse response;
  Call([&](auto* async, auto* context, auto done) {
    async->Place(context, &request, &response, std::move(done));
  });
  return response.decision();
}

v1::Decision GrpcFixture::WhatIf(int gpus, const std::vector<v1::Change>& changes) {
  v1::WhatIfRequest request;
  request.set_training_job_json(JobJson(gpus));
  for (const v1::Change& change : changes) {
    *request.add_changes() = change;
  }
  v1::WhatIfResponse response;
  Call([&](auto* async, auto* context, auto done) {
    async->WhatIf(context, &request, &response, std::move(done));
  });
  return response.decision();
}

}  // namespace asterism::controller
