#include "agent/pod_resources.h"

#include <chrono>
#include <map>
#include <utility>

#include "fmt/format.h"
#include "grpcpp/channel.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "k8s/podresources.grpc.pb.h"

namespace asterism::agent {
namespace {

constexpr int kAnswerMax = 16 << 20;
constexpr std::chrono::seconds kLimit{10};
// Pods that have ended and are still there, of one device.
constexpr size_t kHoldersMax = 64;

int NumaNodeOf(const ::v1::ContainerDevices& devices) {
  return devices.topology().nodes_size() == 1 ? static_cast<int>(devices.topology().nodes(0).id())
                                              : -1;
}

absl::Status Unreadable(const std::string& socket, const grpc::Status& status) {
  return absl::UnavailableError(fmt::format(
      "kubelet's PodResources API at {}: {}: is the folder mounted, and kubelet running?", socket,
      status.error_message()));
}

}  // namespace

struct PodResources::Connection {
  std::unique_ptr<::v1::PodResourcesLister::Stub> stub;
};

PodResources::PodResources(std::string socket, std::set<std::string> resources)
    : socket_(std::move(socket)), resources_(std::move(resources)) {}

PodResources::~PodResources() = default;

absl::StatusOr<std::vector<HeldDevice>> PodResources::Read() {
  if (connection_ == nullptr) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kAnswerMax);
    connection_ = std::make_unique<Connection>();
    connection_->stub = ::v1::PodResourcesLister::NewStub(grpc::CreateCustomChannel(
        "unix:" + socket_, grpc::InsecureChannelCredentials(), arguments));
  }
  const auto call = [&](auto method, const auto& request, auto& response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kLimit);
    return (connection_->stub.get()->*method)(&context, request, &response);
  };
  ::v1::ListPodResourcesResponse pods;
  ::v1::AllocatableResourcesResponse allocatable;
  using Stub = ::v1::PodResourcesLister::Stub;
  grpc::Status status =
      call(&Stub::GetAllocatableResources, ::v1::AllocatableResourcesRequest(), allocatable);
  if (status.ok()) {
    status = call(&Stub::List, ::v1::ListPodResourcesRequest(), pods);
  }
  if (!status.ok()) {
    // kubelet makes the socket anew when it starts: a new connection finds the new one.
    connection_.reset();
    return Unreadable(socket_, status);
  }
  return JoinPodResources(pods, allocatable, resources_);
}

std::vector<HeldDevice> JoinPodResources(const ::v1::ListPodResourcesResponse& pods,
                                         const ::v1::AllocatableResourcesResponse& allocatable,
                                         const std::set<std::string>& resources) {
  std::map<std::pair<std::string, std::string>, HeldDevice> by_id;
  const auto entry = [&](const ::v1::ContainerDevices& devices,
                         const std::string& id) -> HeldDevice& {
    HeldDevice& device = by_id[{devices.resource_name(), id}];
    device.resource = devices.resource_name();
    device.id = id;
    if (const int node = NumaNodeOf(devices); node >= 0) {
      device.numa_node = node;
    }
    return device;
  };
  for (const ::v1::ContainerDevices& devices : allocatable.devices()) {
    if (resources.contains(devices.resource_name())) {
      for (const std::string& id : devices.device_ids()) {
        entry(devices, id).offered = true;
      }
    }
  }
  for (const ::v1::PodResources& pod : pods.pod_resources()) {
    for (const ::v1::ContainerResources& container : pod.containers()) {
      for (const ::v1::ContainerDevices& devices : container.devices()) {
        if (!resources.contains(devices.resource_name())) {
          continue;
        }
        for (const std::string& id : devices.device_ids()) {
          std::vector<DeviceHolder>& holders = entry(devices, id).holders;
          if (holders.size() < kHoldersMax) {
            holders.push_back({pod.namespace_(), pod.name(), container.name()});
          }
        }
      }
    }
  }
  std::vector<HeldDevice> all;
  all.reserve(by_id.size());
  for (auto& [key, device] : by_id) {
    all.push_back(std::move(device));
  }
  return all;
}

}  // namespace asterism::agent
