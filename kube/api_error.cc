#include "kube/api_error.h"

#include <array>
#include <utility>

#include "absl/strings/cord.h"
#include "base/cut_text.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "k8s/meta.pb.h"
#include "kube/envelope.h"
#include "kube/meta_codec.h"

namespace asterism::kube {
namespace {

constexpr char kPayloadUrl[] = "asterism.dev/kube.Status";
constexpr size_t kMaxMessage = 4096;

constexpr std::array<std::pair<std::string_view, absl::StatusCode>, 17> kCodeByReason = {{
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
    {"RequestEntityTooLarge", absl::StatusCode::kInvalidArgument},
    {"Forbidden", absl::StatusCode::kPermissionDenied},
    {"Unauthorized", absl::StatusCode::kUnauthenticated},
    {"InternalError", absl::StatusCode::kInternal},
    {"StorageReadError", absl::StatusCode::kDataLoss},
    {"MethodNotAllowed", absl::StatusCode::kUnimplemented},
}};

absl::StatusCode CodeOfHttp(int code) {
  switch (code) {
    case 400:
    case 413:
    case 422:
      return absl::StatusCode::kInvalidArgument;
    case 401:
      return absl::StatusCode::kUnauthenticated;
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
      return absl::StatusCode::kNotFound;
    case 405:
    case 406:
    case 415:
      return absl::StatusCode::kUnimplemented;
    case 409:
      return absl::StatusCode::kAborted;
    case 410:
      return absl::StatusCode::kOutOfRange;
    case 429:
      return absl::StatusCode::kResourceExhausted;
    case 500:
      return absl::StatusCode::kInternal;
    case 502:
    case 503:
      return absl::StatusCode::kUnavailable;
    case 504:
      return absl::StatusCode::kDeadlineExceeded;
    default:
      return absl::StatusCode::kUnknown;
  }
}

absl::StatusCode CodeOf(std::string_view reason, int http_code) {
  for (const auto& [name, code] : kCodeByReason) {
    if (name == reason) {
      return code;
    }
  }
  return CodeOfHttp(http_code);
}

// The body's control characters must not reach a log line or a condition.
std::string PlainMessage(std::string_view body) {
  std::string message = base::CutText(body, kMaxMessage);
  for (char& c : message) {
    if (static_cast<unsigned char>(c) < 0x20) {
      c = ' ';
    }
  }
  while (!message.empty() && message.back() == ' ') {
    message.pop_back();
  }
  return message;
}

absl::Status FromMessage(const metav1::Status& message) {
  std::string text = PlainMessage(message.message());
  if (text.empty()) {
    text = fmt::format("API server answered {} {}", message.code(), message.reason());
  }
  absl::Status status(CodeOf(message.reason(), message.code()), text);
  status.SetPayload(kPayloadUrl, absl::Cord(message.SerializeAsString()));
  return status;
}

absl::StatusOr<metav1::Status> StatusFromJson(std::string_view text) {
  JsonReader reader;
  ASSIGN_OR_RETURN(const JsonObject root, reader.Parse(text));
  metav1::Status message;
  message.set_status(reader.Text(root, "status"));
  message.set_message(reader.Text(root, "message"));
  message.set_reason(reader.Text(root, "reason"));
  message.set_code(static_cast<int32_t>(reader.Integer(root, "code")));
  reader.Child(root, "details", [&](const JsonObject& details) {
    message.mutable_details()->set_retryafterseconds(
        static_cast<int32_t>(reader.Integer(details, "retryAfterSeconds")));
    reader.Each(details, "causes", [&](const JsonObject& object) {
      metav1::StatusCause& cause = *message.mutable_details()->add_causes();
      cause.set_reason(reader.Text(object, "reason"));
      cause.set_message(reader.Text(object, "message"));
      cause.set_field(reader.Text(object, "field"));
    });
  });
  RETURN_IF_ERROR(reader.status());
  return message;
}

absl::StatusOr<metav1::Status> ParseStatus(const RawObject& object) {
  if (object.encoding == Encoding::kJson) {
    return StatusFromJson(object.bytes);
  }
  google::protobuf::Arena arena;
  ASSIGN_OR_RETURN(const metav1::Status* message,
                   ParseMessage<metav1::Status>(object.bytes, arena));
  return *message;
}

// A body that is no Status: plain text, or a broken one.
metav1::Status StatusFromText(const Reply& reply) {
  metav1::Status message;
  if (reply.content_type.starts_with("text/")) {
    message.set_message(PlainMessage(reply.body));
  }
  return message;
}

}  // namespace

absl::Status ErrorFromReply(const Reply& reply, std::optional<absl::Duration> retry_after) {
  metav1::Status message = StatusFromText(reply);
  if (const absl::StatusOr<RawObject> object = ObjectOf(reply); object.ok()) {
    if (absl::StatusOr<metav1::Status> parsed = ParseStatus(*object); parsed.ok()) {
      message = *std::move(parsed);
    }
  }
  message.set_code(reply.code);
  if (retry_after.has_value()) {
    message.mutable_details()->set_retryafterseconds(
        static_cast<int32_t>(absl::ToInt64Seconds(absl::Ceil(*retry_after, absl::Seconds(1)))));
  }
  return FromMessage(message);
}

absl::Status ErrorFromStatusObject(const RawObject& object) {
  absl::StatusOr<metav1::Status> message = ParseStatus(object);
  if (!message.ok()) {
    return absl::InternalError(
        fmt::format("unreadable Status: {}", std::string(message.status().message())));
  }
  return FromMessage(*message);
}

absl::Status MakeApiError(const ErrorDetails& details, std::string_view text) {
  metav1::Status message;
  message.set_status("Failure");
  message.set_code(details.http_code);
  message.set_reason(details.reason);
  message.set_message(std::string(text));
  for (const ErrorCause& cause : details.causes) {
    metav1::StatusCause& target = *message.mutable_details()->add_causes();
    target.set_reason(cause.reason);
    target.set_message(cause.message);
    target.set_field(cause.field);
  }
  if (details.retry_after.has_value()) {
    message.mutable_details()->set_retryafterseconds(
        static_cast<int32_t>(absl::ToInt64Seconds(*details.retry_after)));
  }
  return FromMessage(message);
}

ErrorDetails GetErrorDetails(const absl::Status& status) {
  ErrorDetails details;
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayloadUrl);
  metav1::Status message;
  if (!payload.has_value() || !message.ParseFromString(std::string(*payload))) {
    return details;
  }
  details.http_code = message.code();
  details.reason = message.reason();
  for (const metav1::StatusCause& cause : message.details().causes()) {
    details.causes.push_back({cause.reason(), cause.message(), cause.field()});
  }
  if (message.details().retryafterseconds() > 0) {
    details.retry_after = absl::Seconds(message.details().retryafterseconds());
  }
  return details;
}

bool IsExpired(const absl::Status& status) {
  return status.code() == absl::StatusCode::kOutOfRange;
}

bool IsTooLargeResourceVersion(const absl::Status& status) {
  const ErrorDetails details = GetErrorDetails(status);
  for (const ErrorCause& cause : details.causes) {
    if (cause.reason == "ResourceVersionTooLarge") {
      return true;
    }
  }
  // Servers before 1.18 say it in the message only.
  return base::ToStd(status.message()).find("Too large resource version") != std::string_view::npos;
}

}  // namespace asterism::kube
