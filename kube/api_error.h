// File: kube/api_error.h
//
// From an answer of the API server that is no success to an absl::Status. The details (HTTP code,
// reason, causes, Retry-After) travel as a payload that GetErrorDetails of kube/client.h reads.
//
//   return ErrorFromReply(reply, retry_after);
//
// Thread-safety: pure functions. Cost: one parse of the Status object.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kube/client.h"
#include "kube/decoder.h"

namespace asterism::kube {

// `reply.code` is not 2xx. The body may be a Status (protobuf or JSON) or plain text.
absl::Status ErrorFromReply(const Reply& reply, std::optional<absl::Duration> retry_after);

// A Status object: the content of an ERROR event of a watch.
absl::Status ErrorFromStatusObject(const RawObject& object);

// For fakes and for errors of our own. `details.reason` decides the code, then details.http_code.
absl::Status MakeApiError(const ErrorDetails& details, std::string_view message);

// 410, or reason Expired or Gone.
bool IsExpired(const absl::Status& status);
// The server's cache has not reached the resourceVersion that was asked for.
bool IsTooLargeResourceVersion(const absl::Status& status);

}  // namespace asterism::kube
