#include "test/agent/fake_kubelet.h"

#include <filesystem>
#include <utility>

#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace asterism::agent {
namespace {

std::unique_ptr<grpc::Server> Serve(const std::string& socket, grpc::Service* service) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
  builder.RegisterService(service);
  return builder.BuildAndStart();
}

}  // namespace

FakeKubelet::FakeKubelet(std::string root) : root_(std::move(root)) {
  std::filesystem::create_directories(root_ + "/device-plugins");
  std::filesystem::create_directories(root_ + "/pod-resources");
}

FakeKubelet::~FakeKubelet() {
  Stop();
}

void FakeKubelet::Start() {
  for (const auto& entry : std::filesystem::directory_iterator(root_ + "/device-plugins")) {
    std::filesystem::remove(entry.path());
  }
  plugins_ = Serve(root_ + "/device-plugins/kubelet.sock",
                   static_cast<v1beta1::Registration::Service*>(this));
  resources_ = Serve(root_ + "/pod-resources/kubelet.sock",
                     static_cast<::v1::PodResourcesLister::Service*>(this));
}

void FakeKubelet::Stop() {
  for (auto* server : {&plugins_, &resources_}) {
    if (*server != nullptr) {
      (*server)->Shutdown(std::chrono::system_clock::now());
      server->reset();
    }
  }
}

bool FakeKubelet::AwaitRegistrations(const std::string& resource, int count) {
  absl::MutexLock lock(&mutex_);
  const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return registrations_[resource] >= count;
  };
  return mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(10));
}

std::string FakeKubelet::EndpointOf(const std::string& resource) {
  absl::MutexLock lock(&mutex_);
  return endpoints_[resource];
}

std::unique_ptr<v1beta1::DevicePlugin::Stub> FakeKubelet::Plugin(const std::string& resource) {
  return v1beta1::DevicePlugin::NewStub(
      grpc::CreateChannel("unix:" + root_ + "/device-plugins/" + EndpointOf(resource),
                          grpc::InsecureChannelCredentials()));
}

void FakeKubelet::SetPods(::v1::ListPodResourcesResponse pods,
                          ::v1::AllocatableResourcesResponse allocatable) {
  absl::MutexLock lock(&mutex_);
  pods_ = std::move(pods);
  allocatable_ = std::move(allocatable);
}

grpc::Status FakeKubelet::Register(grpc::ServerContext* /*context*/,
                                   const v1beta1::RegisterRequest* request,
                                   v1beta1::Empty* /*response*/) {
  absl::MutexLock lock(&mutex_);
  if (request->version() != "v1beta1") {
    return {grpc::StatusCode::INVALID_ARGUMENT, "version"};
  }
  endpoints_[request->resource_name()] = request->endpoint();
  ++registrations_[request->resource_name()];
  return grpc::Status::OK;
}

grpc::Status FakeKubelet::List(grpc::ServerContext* /*context*/,
                               const ::v1::ListPodResourcesRequest* /*request*/,
                               ::v1::ListPodResourcesResponse* response) {
  absl::MutexLock lock(&mutex_);
  *response = pods_;
  return grpc::Status::OK;
}

grpc::Status FakeKubelet::GetAllocatableResources(
    grpc::ServerContext* /*context*/, const ::v1::AllocatableResourcesRequest* /*request*/,
    ::v1::AllocatableResourcesResponse* response) {
  absl::MutexLock lock(&mutex_);
  *response = allocatable_;
  return grpc::Status::OK;
}

}  // namespace asterism::agent
