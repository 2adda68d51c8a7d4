// Who gets into a relay, over real TLS.
#include "agent/relay_port.h"

#include <fstream>
#include <sstream>

#include "absl/synchronization/notification.h"
#include "agent/controller_stream.h"
#include "asterism/v1/relay.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "test/server/test_certificates.h"

namespace asterism::agent {
namespace {

using server::CertificateUse;
using server::testing::PemFiles;
using server::testing::TestAuthority;

std::string PemText(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class RelayPortTest : public ::testing::Test {
 protected:
  RelayPortTest() {
    const PemFiles files = authority_.Issue(kAgentName, CertificateUse::kServerAndClient);
    absl::Notification opened;
    executor_.Post([&] {
      port_ = *RelayPort::Open({.host = "127.0.0.1",
                                .authority_path = authority_.ca_file(),
                                .certificate_path = files.certificate_file,
                                .key_path = files.key_file},
                               executor_, [this] { OnWaiting(); });
      port_->members().Open(2);
      opened.Notify();
    });
    opened.WaitForNotification();
  }
  ~RelayPortTest() override {
    executor_.Stop();
    port_.reset();
  }

  void OnWaiting() {
    v1::SealedFrames batch;
    if (port_->members().Take(batch) && batch.frames_size() > 0) {
      taken_ = batch.frames(0).frame();
      v1::SealedFrames answer;
      *answer.add_frames() = batch.frames(0);
      answer.mutable_frames(0)->set_frame("answer");
      port_->members().Deliver(answer);
    }
  }

  // What comes of saying `text` with a certificate of that name; null: without one.
  grpc::Status Say(const std::string& text, TestAuthority* authority, const std::string& name) {
    grpc::SslCredentialsOptions ssl{.pem_root_certs = PemText(authority_.ca_file())};
    if (authority != nullptr) {
      const PemFiles files = authority->Issue(name, CertificateUse::kClient);
      ssl.pem_private_key = PemText(files.key_file);
      ssl.pem_cert_chain = PemText(files.certificate_file);
    }
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride(kAgentName);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto stub = v1::Relay::NewStub(
        grpc::CreateCustomChannel(port_->address(), grpc::SslCredentials(ssl), arguments));
    grpc::ClientContext context;
    const auto stream = stub->Join(&context);
    v1::SealedFrame frame;
    frame.set_session(7);
    frame.set_frame(text);
    stream->Write(frame);
    v1::SealedFrame answer;
    answered_ = stream->Read(&answer) ? answer.frame() : "";
    stream->WritesDone();
    return stream->Finish();
  }

  TestAuthority authority_{"ca"};
  TestAuthority strangers_{"strangers"};
  base::ThreadExecutor executor_{"agent"};
  std::unique_ptr<RelayPort> port_;
  std::string taken_;  // on the executor
  std::string answered_;
};

TEST_F(RelayPortTest, IsForThoseWithTheAgentsCertificate) {
  EXPECT_TRUE(Say("hello", &authority_, kAgentName).ok());
  EXPECT_EQ(answered_, "answer");
  EXPECT_EQ(Say("hello", &authority_, "asterism-scheduler").error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Say("hello", &strangers_, kAgentName).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Say("hello", nullptr, "").error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(answered_, "");
}

TEST_F(RelayPortTest, AHugeFrameEndsItsStreamAndNoOther) {
  EXPECT_EQ(Say(std::string(1 << 20, 'x'), &authority_, kAgentName).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Say("hello", &authority_, kAgentName).ok());
  EXPECT_EQ(answered_, "answer");
}

TEST_F(RelayPortTest, AnAddressThatIsNotOursIsAnErrorWithAReason) {
  base::ThreadExecutor executor("other");
  EXPECT_FALSE(RelayPort::Open({}, executor, [] {}).ok());
  const auto elsewhere = RelayPort::Open({.host = "192.0.2.1"}, executor, [] {});
  ASSERT_FALSE(elsewhere.ok());
  EXPECT_NE(std::string(elsewhere.status().message()).find("192.0.2.1"), std::string::npos);
}

}  // namespace
}  // namespace asterism::agent
