#include "controller/endpoint_publisher.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "kube/testing/fake_api_server.h"
#include "nlohmann/json.hpp"

namespace asterism::controller {
namespace {

using nlohmann::json;

constexpr char kSystem[] = "asterism-system";

class EndpointPublisherTest : public ::testing::Test {
 protected:
  EndpointPublisherTest() { PutService("service-1"); }

  void PutService(const std::string& uid) {
    server_.Put(kube::kServices,
                {{"metadata", {{"namespace", kSystem}, {"name", kExtenderService}, {"uid", uid}}}});
  }
  std::unique_ptr<EndpointPublisher> Start(const std::string& address) {
    auto publisher = std::make_unique<EndpointPublisher>(
        executor_, server_, [this] { return may_write_; },
        EndpointPublisherOptions{.endpoint = {.namespace_name = kSystem,
                                              .pod_ip = address,
                                              .port = 8443,
                                              .grpc_port = 9443},
                                 .field_manager = "asterism-controller"});
    publisher->Start();
    executor_.RunFor(absl::Milliseconds(100));
    return publisher;
  }
  json Slice() const {
    const auto slice = server_.Find(kube::kEndpointSlices, kSlice);
    return slice == nullptr ? json() : *slice;
  }
  std::string Address() const {
    return Slice().is_null() ? "" : Slice()["endpoints"][0]["addresses"][0].get<std::string>();
  }
  std::string Owner() const {
    return Slice()["metadata"].value("ownerReferences", json::array({json::object()}))[0].value(
        "uid", "");
  }
  int Writes() const {
    const auto found = server_.requests().find("patch endpointslices");
    return found == server_.requests().end() ? 0 : found->second;
  }
  // What a leader of the past had on its way.
  void WriteLate(const std::string& address, const std::string& resource_version) {
    server_.Patch(
        kube::kEndpointSlices, kSlice,
        EndpointSliceBody(
            {.namespace_name = kSystem, .pod_ip = address, .port = 8443, .grpc_port = 9443},
            resource_version),
        {.type = kube::PatchType::kApply, .field_manager = "asterism-controller"}, [](auto) {});
    executor_.RunFor(absl::Milliseconds(100));
  }

  const kube::ObjectName kSlice{kSystem, std::string(kExtenderEndpointSlice)};
  base::SimClock clock_;
  base::SimExecutor executor_{clock_};
  kube::testing::FakeApiServer server_{clock_, executor_, {}};
  bool may_write_ = true;
};

TEST_F(EndpointPublisherTest, PublishesOnceAndThenOnlyLooks) {
  const auto publisher = Start("10.0.0.1");
  EXPECT_EQ(Address(), "10.0.0.1");
  EXPECT_EQ(Slice()["ports"][1]["port"], 8443);
  EXPECT_EQ(Slice()["ports"][2], json({{"name", "grpc"}, {"protocol", "TCP"}, {"port", 9443}}));
  EXPECT_EQ(Slice()["addressType"], "IPv4");
  EXPECT_EQ(Slice()["metadata"]["labels"]["kubernetes.io/service-name"], "asterism-extender");
  EXPECT_EQ(Owner(), "service-1") << "removing the chart must remove it";
  executor_.RunFor(absl::Minutes(10));
  EXPECT_EQ(Writes(), 1);
}

TEST_F(EndpointPublisherTest, PutsRightWhatOthersDid) {
  const auto publisher = Start("10.0.0.2");
  WriteLate("10.0.0.1", "");
  EXPECT_EQ(Address(), "10.0.0.1");
  executor_.RunFor(absl::Seconds(11));
  EXPECT_EQ(Address(), "10.0.0.2");
  server_.Remove(kube::kEndpointSlices, kSlice);
  executor_.RunFor(absl::Seconds(11));
  EXPECT_EQ(Address(), "10.0.0.2");
  EXPECT_EQ(Owner(), "service-1");
}

TEST_F(EndpointPublisherTest, AWriteThatIsLateMeetsAConflict) {
  auto before = Start("10.0.0.1");
  const std::string version = Slice()["metadata"]["resourceVersion"];
  before.reset();
  const auto now = Start("10.0.0.2");
  WriteLate("10.0.0.1", version);
  EXPECT_EQ(Address(), "10.0.0.2");
}

TEST_F(EndpointPublisherTest, TheOwnerFollowsTheService) {
  server_.Remove(kube::kServices, {kSystem, std::string(kExtenderService)});
  const auto publisher = Start("10.0.0.1");
  EXPECT_EQ(Address(), "10.0.0.1") << "without a Service too";
  EXPECT_EQ(Owner(), "");
  PutService("service-2");
  executor_.RunFor(absl::Seconds(11));
  EXPECT_EQ(Owner(), "service-2");
  server_.Remove(kube::kServices, {kSystem, std::string(kExtenderService)});
  PutService("service-3");
  executor_.RunFor(absl::Seconds(11));
  EXPECT_EQ(Address(), "10.0.0.1");
  EXPECT_EQ(Owner(), "service-3");
}

TEST_F(EndpointPublisherTest, NothingIsWrittenAfterTheServiceIsRemoved) {
  const auto publisher = Start("10.0.0.1");
  server_.Remove(kube::kServices, {kSystem, std::string(kExtenderService)});
  server_.Remove(kube::kEndpointSlices, kSlice);  // the garbage collector follows
  executor_.RunFor(absl::Minutes(1));
  EXPECT_EQ(Address(), "");
  PutService("service-2");
  executor_.RunFor(absl::Seconds(11));
  EXPECT_EQ(Address(), "10.0.0.1");
}

TEST_F(EndpointPublisherTest, WhereOwnersMayNotBeNamedItIsPublishedWithoutOne) {
  server_.SetAdmission(
      [](const kube::ResourceType&, std::string_view, json& object) -> absl::Status {
        return object["metadata"].contains("ownerReferences")
                   ? absl::PermissionDeniedError("cannot set an ownerRef on a resource")
                   : absl::OkStatus();
      });
  const auto publisher = Start("10.0.0.1");
  executor_.RunFor(absl::Seconds(2));
  EXPECT_EQ(Address(), "10.0.0.1");
  executor_.RunFor(absl::Minutes(1));
  EXPECT_EQ(Writes(), 2);
}

TEST_F(EndpointPublisherTest, TriesAgainAndOnlyAsLeader) {
  server_.InjectFault({.plural = "services", .http_code = 500});
  server_.InjectFault({.plural = "endpointslices", .count = 2, .http_code = 500});
  may_write_ = false;
  const auto publisher = Start("10.0.0.1");
  executor_.RunFor(absl::Minutes(1));
  EXPECT_EQ(Writes(), 0);
  may_write_ = true;
  executor_.RunFor(absl::Seconds(2));
  EXPECT_EQ(Address(), "10.0.0.1");
}

TEST(IsPublished, OnlyWhenNobodyElseIsThere) {
  const LeaderEndpoint endpoint{
      .namespace_name = kSystem, .pod_ip = "fd00::1", .port = 8443, .service_uid = "u"};
  json slice = json::parse(EndpointSliceBody(endpoint, "7"));
  EXPECT_EQ(slice["metadata"]["resourceVersion"], "7");
  EXPECT_EQ(slice["addressType"], "IPv6");
  slice["metadata"]["uid"] = "added-by-the-server";
  slice["endpoints"][0]["conditions"]["serving"] = true;
  EXPECT_TRUE(IsPublished(endpoint, slice.dump()));
  json two = slice;
  two["endpoints"].push_back(two["endpoints"][0]);
  EXPECT_FALSE(IsPublished(endpoint, two.dump()));
  for (const char* member : {"metadata", "endpoints", "ports", "addressType"}) {
    json lacks = slice;
    lacks.erase(member);
    EXPECT_FALSE(IsPublished(endpoint, lacks.dump())) << member;
    lacks[member] = 5;
    EXPECT_FALSE(IsPublished(endpoint, lacks.dump())) << member;
  }
  EXPECT_FALSE(IsPublished(endpoint, "not JSON"));
  EXPECT_FALSE(IsPublished(endpoint, "[]"));
}

// The API server's proxy to a Service skips addresses whose pod is not named.
TEST(EndpointSliceBody, NamesThePodWhereThereIsOne) {
  LeaderEndpoint endpoint{.namespace_name = kSystem, .pod_ip = "10.0.0.1", .pod_name = "leader-0"};
  const json slice = json::parse(EndpointSliceBody(endpoint, ""));
  EXPECT_EQ(slice["endpoints"][0]["targetRef"],
            json({{"kind", "Pod"}, {"namespace", kSystem}, {"name", "leader-0"}}));
  EXPECT_TRUE(IsPublished(endpoint, slice.dump()));
  endpoint.pod_name = "leader-1";
  EXPECT_FALSE(IsPublished(endpoint, slice.dump()));
  endpoint.pod_name = "";
  EXPECT_FALSE(json::parse(EndpointSliceBody(endpoint, ""))["endpoints"][0].contains("targetRef"));
}

}  // namespace
}  // namespace asterism::controller
