// Envelope, watch frames, JSON outlines, errors, URLs and versions: what goes over the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "fmt/format.h"
#include "k8s/meta.pb.h"
#include "k8s/runtime.pb.h"
#include "kube/api_error.h"
#include "kube/envelope.h"
#include "kube/json_split.h"
#include "kube/resource_path.h"
#include "kube/resource_version.h"
#include "kube/watch_frame.h"

namespace asterism::kube {
namespace {

namespace meta = ::k8s::io::apimachinery::pkg::apis::meta::v1;
namespace runtime = ::k8s::io::apimachinery::pkg::runtime;

std::string Document(const std::string& raw) {
  runtime::Unknown unknown;
  unknown.mutable_typemeta()->set_apiversion("v1");
  unknown.mutable_typemeta()->set_kind("Pod");
  unknown.set_raw(raw);
  return std::string("k8s\0", 4) + unknown.SerializeAsString();
}

std::string Frame(const std::string& type, const std::string& raw) {
  meta::WatchEvent event;
  event.set_type(type);
  event.mutable_object()->set_raw(Document(raw));
  const std::string bytes = event.SerializeAsString();
  std::string frame;
  for (const int shift : {24, 16, 8, 0}) {
    frame += static_cast<char>((bytes.size() >> shift) & 0xff);
  }
  return frame + bytes;
}

TEST(Envelope, OpensAndRefuses) {
  const std::string document = Document("hello");
  const absl::StatusOr<Envelope> envelope = OpenEnvelope(document);
  ASSERT_TRUE(envelope.ok());
  EXPECT_EQ(envelope->api_version, "v1");
  EXPECT_EQ(envelope->kind, "Pod");
  EXPECT_EQ(envelope->raw, "hello");
  EXPECT_FALSE(OpenEnvelope("").ok());
  EXPECT_FALSE(OpenEnvelope("{}").ok());
  EXPECT_FALSE(OpenEnvelope(document.substr(0, document.size() - 1)).ok());
  EXPECT_FALSE(OpenEnvelope(std::string("k8s\0\x0b\x0c", 6)).ok());  // a group
}

struct Seen {
  WatchEventType type;
  std::string bytes;
  bool operator==(const Seen&) const = default;
};

// However the network cuts the bytes, the events are the same.
TEST(WatchFramer, DoesNotCareHowBytesArrive) {
  for (const Encoding encoding : {Encoding::kJson, Encoding::kProtobuf}) {
    EXPECT_TRUE(rc::check("frames", [&] {
      std::vector<Seen> expected;
      std::string stream;
      const int count = *rc::gen::inRange(0, 8);
      for (int i = 0; i < count; ++i) {
        const auto [name, type] =
            *rc::gen::element(std::pair{"ADDED", WatchEventType::kAdded},
                              std::pair{"MODIFIED", WatchEventType::kModified},
                              std::pair{"DELETED", WatchEventType::kDeleted},
                              std::pair{"BOOKMARK", WatchEventType::kBookmark},
                              std::pair{"ERROR", WatchEventType::kError});
        std::string body = *rc::gen::container<std::string>(rc::gen::inRange('a', 'z'));
        if (encoding == Encoding::kJson) {
          body = fmt::format(R"({{"x":"{}"}})", body);
          stream += fmt::format("{{\"type\":\"{}\",\"object\":{}}}\n", name, body);
        } else {
          stream += Frame(name, body);
        }
        expected.push_back({type, body});
      }
      WatchFramer framer(encoding);
      std::vector<Seen> seen;
      std::string_view rest = stream;
      while (!rest.empty()) {
        const size_t size = *rc::gen::inRange<size_t>(1, rest.size() + 1);
        RC_ASSERT(framer
                      .Append(rest.substr(0, size),
                              [&](WatchEventType type, const RawObject& object) {
                                seen.push_back({type, std::string(object.bytes)});
                              })
                      .ok());
        rest.remove_prefix(size);
      }
      RC_ASSERT(seen == expected);
      RC_ASSERT(framer.pending() == 0u);
    }));
  }
}

TEST(WatchFramer, RefusesWhatIsNoEvent) {
  const auto append = [](Encoding encoding, const std::string& bytes) {
    return WatchFramer(encoding).Append(bytes, [](WatchEventType, const RawObject&) {});
  };
  EXPECT_FALSE(append(Encoding::kProtobuf, "\xff\xff\xff\xff").ok());
  EXPECT_FALSE(append(Encoding::kProtobuf, Frame("NEWS", "x")).ok());
  EXPECT_FALSE(append(Encoding::kProtobuf, std::string("\0\0\0\0", 4)).ok());
  EXPECT_FALSE(append(Encoding::kJson, "{}\n").ok());
  EXPECT_FALSE(append(Encoding::kJson, "{\"type\":\"ADDED\"}\n").ok());
  EXPECT_FALSE(append(Encoding::kJson, "{\"type\":3,\"object\":{}}\n").ok());
  EXPECT_TRUE(append(Encoding::kJson, "\n").ok());
}

TEST(SplitJson, CutsTheOutline) {
  std::vector<std::string> members;
  const auto visit = [&](std::string_view key, std::string_view value) {
    members.push_back(fmt::format("{}|{}", key, value));
  };
  EXPECT_TRUE(SplitJsonObject(R"( { "a" : 1 , "b\"":{"x":[1,{"}":2}]},"c":"]}," } )", visit).ok());
  EXPECT_THAT(members, ::testing::ElementsAre("a|1", "b\\\"|{\"x\":[1,{\"}\":2}]}", "c|\"]},\""));
  for (const char* bad : {"", "{", "{]", "[]", R"({"a"})", R"({"a":})", R"({"a":1,})",
                          R"({"a":1}x)", R"({"a":"1)", R"({"a":[1})", R"({"a":"\)"}) {
    EXPECT_FALSE(SplitJsonObject(bad, visit).ok()) << bad;
  }
}

TEST(ApiError, ReadsAStatusOfAnyEncodingAndPlainText) {
  meta::Status message;
  message.set_message("the object has been modified");
  message.set_reason("Conflict");
  message.set_code(409);
  runtime::Unknown unknown;
  unknown.set_raw(message.SerializeAsString());
  const absl::Status conflict =
      ErrorFromReply({409, "application/vnd.kubernetes.protobuf",
                      std::string("k8s\0", 4) + unknown.SerializeAsString()},
                     std::nullopt);
  EXPECT_TRUE(absl::IsAborted(conflict));
  EXPECT_EQ(GetErrorDetails(conflict).reason, "Conflict");

  const absl::Status busy = ErrorFromReply(
      {429, "text/plain", "Too many requests, please try again later.\n"}, absl::Seconds(1));
  EXPECT_TRUE(absl::IsResourceExhausted(busy));
  EXPECT_EQ(std::string(busy.message()), "Too many requests, please try again later.");
  EXPECT_EQ(GetErrorDetails(busy).retry_after, absl::Seconds(1));

  const absl::Status html = ErrorFromReply({502, "text/html", "<h1>Bad\r\nGateway"}, std::nullopt);
  EXPECT_TRUE(absl::IsUnavailable(html));
  EXPECT_EQ(std::string(html.message()).find('\n'), std::string::npos);
  EXPECT_EQ(GetErrorDetails(absl::InternalError("x")).http_code, 0);
}

TEST(ApiError, ReasonsBecomeCodes) {
  const std::vector<std::pair<std::string, absl::StatusCode>> table = {
      {"NotFound", absl::StatusCode::kNotFound},
      {"AlreadyExists", absl::StatusCode::kAlreadyExists},
      {"Conflict", absl::StatusCode::kAborted},
      {"Expired", absl::StatusCode::kOutOfRange},
      {"Gone", absl::StatusCode::kOutOfRange},
      {"TooManyRequests", absl::StatusCode::kResourceExhausted},
      {"ServiceUnavailable", absl::StatusCode::kUnavailable},
      {"ServerTimeout", absl::StatusCode::kUnavailable},
      {"Timeout", absl::StatusCode::kDeadlineExceeded},
      {"Invalid", absl::StatusCode::kInvalidArgument},
      {"BadRequest", absl::StatusCode::kInvalidArgument},
      {"Forbidden", absl::StatusCode::kPermissionDenied},
      {"Unauthorized", absl::StatusCode::kUnauthenticated},
      {"InternalError", absl::StatusCode::kInternal},
      {"StorageReadError", absl::StatusCode::kDataLoss}};
  for (const auto& [reason, code] : table) {
    EXPECT_EQ(MakeApiError({.http_code = 400, .reason = reason}, "x").code(), code) << reason;
  }
  EXPECT_TRUE(IsTooLargeResourceVersion(MakeApiError(
      {.http_code = 504, .reason = "Timeout", .causes = {{"ResourceVersionTooLarge", "", ""}}},
      "x")));
}

TEST(ResourceVersion, OrdersDecimalsOfAnyLength) {
  const auto less = std::strong_ordering::less;
  EXPECT_EQ(CompareResourceVersions("9", "10"), less);
  EXPECT_EQ(
      CompareResourceVersions("123456789012345678901234567890", "123456789012345678901234567891"),
      less);
  EXPECT_EQ(CompareResourceVersions("7", "7"), std::strong_ordering::equal);
  for (const char* bad : {"", "0", "07", "1a", "-1", " 1"}) {
    EXPECT_EQ(CompareResourceVersions(bad, "7"), std::nullopt) << bad;
    EXPECT_EQ(CompareResourceVersions("7", bad), std::nullopt) << bad;
  }
}

TEST(ResourcePath, EncodesWhatIsNotPlain) {
  EXPECT_EQ(CollectionPath(kNodes, "ignored"), "/api/v1/nodes");
  EXPECT_EQ(CollectionPath(kLeases, ""), "/apis/coordination.k8s.io/v1/leases");
  EXPECT_EQ(ObjectPath(kPods, {"a b", "c/d?e"}, "status"),
            "/api/v1/namespaces/a%20b/pods/c%2Fd%3Fe/status");
  UrlQuery query;
  query.Add("x", "");
  EXPECT_EQ(query.Text(), "");
  query.Add("a", "1,2");
  query.Add("b", "\xc3\xa9");
  EXPECT_EQ(query.Text(), "?a=1%2C2&b=%C3%A9");
}

}  // namespace
}  // namespace asterism::kube
