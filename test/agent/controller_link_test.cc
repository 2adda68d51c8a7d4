// What goes up the stream to the controller, with a controller in the same process.
#include "agent/controller_link.h"

#include <vector>

#include "absl/synchronization/mutex.h"
#include "asterism/v1/agent.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

namespace asterism::agent {
namespace {

// Welcomes whoever says hello, keeps what it is told, and asks for all when it is told to.
class FakeController final : public v1::Agents::Service {
 public:
  FakeController() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeController() override { server_->Shutdown(std::chrono::system_clock::time_point()); }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  void AskForAll() {
    const absl::MutexLock lock(&mutex_);
    v1::ControllerFrame frame;
    frame.mutable_measurement_wanted();
    ASSERT_NE(stream_, nullptr);
    stream_->Write(frame);
  }
  // The n-th measurement, counted from 1.
  v1::NodeMeasurement Await(size_t number) {
    const absl::MutexLock lock(&mutex_);
    for (int i = 0; i < 600 && told_.size() < number; ++i) {
      changed_.WaitWithTimeout(&mutex_, absl::Milliseconds(100));
    }
    return told_.size() < number ? v1::NodeMeasurement() : told_[number - 1];
  }

 private:
  using Stream = grpc::ServerReaderWriter<v1::ControllerFrame, v1::AgentFrame>;

  grpc::Status Attach(grpc::ServerContext*, Stream* stream) override {
    v1::AgentFrame frame;
    while (stream->Read(&frame)) {
      const absl::MutexLock lock(&mutex_);
      if (frame.has_hello()) {
        stream_ = stream;
        v1::ControllerFrame welcome;
        welcome.mutable_welcome()->set_controller("fake");
        stream->Write(welcome);
      } else if (frame.has_measurement()) {
        told_.push_back(frame.measurement());
        changed_.SignalAll();
      }
    }
    const absl::MutexLock lock(&mutex_);
    stream_ = nullptr;
    return grpc::Status::OK;
  }

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  Stream* stream_ = nullptr;
  std::vector<v1::NodeMeasurement> told_;
};

v1::NodeMeasurement TwoParts(const std::string& uuid) {
  v1::NodeMeasurement measured;
  measured.mutable_gpus()->add_gpus()->set_uuid(uuid);
  measured.mutable_nics()->add_nics()->set_device("mlx5_0");
  return measured;
}

TEST(ControllerLink, TellsAllOfAMeasurementFirstThenWhatHasChangedAndAllWhenAsked) {
  FakeController controller;
  base::ThreadExecutor executor("core");
  auto link = std::make_unique<ControllerLink>(
      executor, base::Rng(1),
      ControllerLinkOptions{.address = controller.address(), .first_generation = 500});
  // Measured before anybody listens: two changes are one message.
  executor.Post([&] {
    link->Tell(TwoParts("GPU-a"));
    link->Tell(TwoParts("GPU-b"));
    link->Start();
  });
  v1::NodeMeasurement told = controller.Await(1);
  EXPECT_TRUE(told.full());
  EXPECT_EQ(told.generation(), 501U);
  EXPECT_EQ(told.gpus().gpus(0).uuid(), "GPU-b");
  EXPECT_TRUE(told.has_nics());

  executor.Post([&] { link->Tell(TwoParts("GPU-b")); });  // the same is not told again
  executor.Post([&] { link->Tell(TwoParts("GPU-c")); });
  told = controller.Await(2);
  EXPECT_FALSE(told.full());
  EXPECT_EQ(told.generation(), 502U);
  EXPECT_EQ(told.gpus().gpus(0).uuid(), "GPU-c");
  EXPECT_FALSE(told.has_nics());

  controller.AskForAll();
  told = controller.Await(3);
  EXPECT_TRUE(told.full());
  EXPECT_EQ(told.generation(), 502U);
  EXPECT_TRUE(told.has_nics());
  executor.Stop();
  link.reset();
}

}  // namespace
}  // namespace asterism::agent
