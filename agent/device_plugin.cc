#include "agent/device_plugin.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/executor.h"
#include "base/log.h"
#include "fmt/format.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "k8s/deviceplugin.grpc.pb.h"

namespace asterism::agent {
namespace {

constexpr char kKubeletSocket[] = "kubelet.sock";
constexpr std::chrono::seconds kRegisterLimit{5};
constexpr absl::Duration kStreamPeriod = absl::Milliseconds(200);

// Which socket file it is; a new one of the same name is another.
struct FileMark {
  ino_t inode = 0;
  timespec changed{};

  bool operator==(const FileMark& other) const {
    return inode == other.inode && changed.tv_sec == other.changed.tv_sec &&
           changed.tv_nsec == other.changed.tv_nsec;
  }
};

FileMark MarkOf(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    return {};
  }
  return {.inode = status.st_ino, .changed = status.st_ctim};
}

// The newest list; streams wait for it to change.
class DeviceList {
 public:
  void Set(std::vector<PluginDevice> devices) {
    absl::MutexLock lock(&mutex_);
    if (devices != devices_) {
      devices_ = std::move(devices);
      ++version_;
    }
  }

  // Waits up to `limit` for a list that is not `told`; false: there is none.
  bool Await(uint64_t& told, absl::Duration limit, v1beta1::ListAndWatchResponse& message) const {
    absl::MutexLock lock(&mutex_);
    const auto newer = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return version_ != told; };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&newer), limit)) {
      return false;
    }
    told = version_;
    message.Clear();
    for (const PluginDevice& device : devices_) {
      v1beta1::Device& entry = *message.add_devices();
      entry.set_id(device.id);
      entry.set_health(device.healthy ? "Healthy" : "Unhealthy");
      if (device.numa_node >= 0) {
        entry.mutable_topology()->add_nodes()->set_id(device.numa_node);
      }
    }
    return true;
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<PluginDevice> devices_ ABSL_GUARDED_BY(mutex_);
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace

class DevicePlugin::Server final : public v1beta1::DevicePlugin::Service {
 public:
  Server(DevicePluginOptions options, agent::DevicePlugin::Allocate allocate)
      : options_(std::move(options)),
        allocate_(std::move(allocate)),
        path_(options_.folder + "/" + options_.socket),
        timer_(executor_) {}

  ~Server() override {
    executor_.Stop();
    Close();
    RemoveOldSocket();
  }

  absl::Status Open() {
    RemoveOldSocket();
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + path_, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    own_ = MarkOf(path_);
    if (server_ == nullptr || own_ == FileMark{}) {
      return absl::FailedPreconditionError(fmt::format(
          "{}: cannot listen: is the folder of kubelet's device plug-ins mounted and writable?",
          path_));
    }
    return absl::OkStatus();
  }

  void Watch() {
    executor_.Post([this] { Look(); });
  }

  void SetDevices(std::vector<PluginDevice> devices) { list_.Set(std::move(devices)); }

  bool registered() const { return registered_; }

 private:
  grpc::Status GetDevicePluginOptions(grpc::ServerContext* /*context*/,
                                      const v1beta1::Empty* /*request*/,
                                      v1beta1::DevicePluginOptions* /*response*/) override {
    return grpc::Status::OK;
  }

  grpc::Status ListAndWatch(grpc::ServerContext* context, const v1beta1::Empty* /*request*/,
                            grpc::ServerWriter<v1beta1::ListAndWatchResponse>* writer) override {
    uint64_t told = 0;
    v1beta1::ListAndWatchResponse message;
    // A stream that has ended is noticed within a period.
    while (!closing_ && !context->IsCancelled()) {
      if (list_.Await(told, kStreamPeriod, message) && !writer->Write(message)) {
        break;
      }
    }
    return grpc::Status::OK;
  }

  grpc::Status Allocate(grpc::ServerContext* /*context*/, const v1beta1::AllocateRequest* request,
                        v1beta1::AllocateResponse* response) override {
    for (const v1beta1::ContainerAllocateRequest& asked : request->container_requests()) {
      const Grant grant = allocate_({asked.devices_ids().begin(), asked.devices_ids().end()});
      v1beta1::ContainerAllocateResponse& given = *response->add_container_responses();
      given.mutable_envs()->insert(grant.environment.begin(), grant.environment.end());
      for (const Grant::Mount& mount : grant.mounts) {
        v1beta1::Mount& told = *given.add_mounts();
        told.set_host_path(mount.host_path);
        told.set_container_path(mount.container_path);
        told.set_read_only(mount.read_only);
      }
    }
    return grpc::Status::OK;
  }

  void RemoveOldSocket() const {
    struct stat status {};
    // Only a socket: the name comes from a configuration.
    if (lstat(path_.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) {
      unlink(path_.c_str());
    }
  }

  void Close() {
    if (server_ != nullptr) {
      closing_ = true;
      server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
      server_.reset();
      closing_ = false;
    }
  }

  void Look() {
    timer_.Start(options_.look_period, [this] { Look(); });
    // Also when the last try to open it failed: a full disk, a folder that was away.
    if (server_ == nullptr || !(MarkOf(path_) == own_)) {
      registered_ = false;
      Close();
      if (const absl::Status opened = Open(); !opened.ok()) {
        Complain(std::string(opened.message()));
        return;
      }
    }
    const FileMark kubelet = MarkOf(options_.folder + "/" + kKubeletSocket);
    if (!(kubelet == kubelet_)) {
      registered_ = false;
    }
    if (registered_ || kubelet == FileMark{}) {
      return;
    }
    if (const grpc::Status status = Register(); !status.ok()) {
      Complain(fmt::format("kubelet does not take the device plug-in: {}", status.error_message()));
      return;
    }
    kubelet_ = kubelet;
    complaint_.clear();
    registered_ = true;
    base::LogInfo("device_plugin_registered", {{"resource", options_.resource}});
  }

  grpc::Status Register() {
    const auto channel = grpc::CreateChannel("unix:" + options_.folder + "/" + kKubeletSocket,
                                             grpc::InsecureChannelCredentials());
    const auto stub = v1beta1::Registration::NewStub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kRegisterLimit);
    v1beta1::RegisterRequest request;
    request.set_version("v1beta1");
    request.set_endpoint(options_.socket);
    request.set_resource_name(options_.resource);
    v1beta1::Empty response;
    return stub->Register(&context, request, &response);
  }

  void Complain(const std::string& what) {
    if (std::exchange(complaint_, what) != what) {
      base::LogWarning("device_plugin_not_registered",
                       {{"resource", options_.resource}, {"error", what}});
    }
  }

  const DevicePluginOptions options_;
  const agent::DevicePlugin::Allocate allocate_;
  const std::string path_;
  DeviceList list_;
  std::atomic<bool> closing_ = false;
  std::unique_ptr<grpc::Server> server_;
  FileMark own_;
  FileMark kubelet_;  // that the registration is with
  std::string complaint_;
  std::atomic<bool> registered_ = false;
  base::ThreadExecutor executor_{"device-plugin"};
  base::OwnedTimer timer_;
};

DevicePlugin::DevicePlugin(std::unique_ptr<Server> server) : server_(std::move(server)) {}

DevicePlugin::~DevicePlugin() = default;

absl::StatusOr<std::unique_ptr<DevicePlugin>> DevicePlugin::Start(DevicePluginOptions options,
                                                                  Allocate allocate) {
  auto server = std::make_unique<Server>(std::move(options), std::move(allocate));
  if (absl::Status opened = server->Open(); !opened.ok()) {
    return opened;
  }
  server->Watch();
  return std::unique_ptr<DevicePlugin>(new DevicePlugin(std::move(server)));
}

void DevicePlugin::SetDevices(std::vector<PluginDevice> devices) {
  server_->SetDevices(std::move(devices));
}

bool DevicePlugin::registered() const {
  return server_->registered();
}

}  // namespace asterism::agent
