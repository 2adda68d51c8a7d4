// File: test/agent/fake_kubelet.h
//
// kubelet's side of the device plug-in and PodResources APIs, in a folder of the test.
//
// Thread-safety: any thread. Cost: two gRPC servers.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/server.h"
#include "k8s/deviceplugin.grpc.pb.h"
#include "k8s/podresources.grpc.pb.h"

namespace asterism::agent {

class FakeKubelet final : public v1beta1::Registration::Service,
                          public ::v1::PodResourcesLister::Service {
 public:
  explicit FakeKubelet(std::string root);
  ~FakeKubelet() override;

  // Listens; as a real one does at its start, it first removes all sockets of plug-ins.
  void Start();
  void Stop();

  // The number of registrations of the resource reaches `count`; false after ten seconds.
  bool AwaitRegistrations(const std::string& resource, int count);
  // The endpoint of the last registration.
  std::string EndpointOf(const std::string& resource);
  std::unique_ptr<v1beta1::DevicePlugin::Stub> Plugin(const std::string& resource);

  void SetPods(::v1::ListPodResourcesResponse pods, ::v1::AllocatableResourcesResponse allocatable);

 private:
  grpc::Status Register(grpc::ServerContext* context, const v1beta1::RegisterRequest* request,
                        v1beta1::Empty* response) override;
  grpc::Status List(grpc::ServerContext* context, const ::v1::ListPodResourcesRequest* request,
                    ::v1::ListPodResourcesResponse* response) override;
  grpc::Status GetAllocatableResources(grpc::ServerContext* context,
                                       const ::v1::AllocatableResourcesRequest* request,
                                       ::v1::AllocatableResourcesResponse* response) override;

  const std::string root_;
  std::unique_ptr<grpc::Server> plugins_;
  std::unique_ptr<grpc::Server> resources_;
  absl::Mutex mutex_;
  std::map<std::string, int> registrations_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> endpoints_ ABSL_GUARDED_BY(mutex_);
  ::v1::ListPodResourcesResponse pods_ ABSL_GUARDED_BY(mutex_);
  ::v1::AllocatableResourcesResponse allocatable_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace asterism::agent
