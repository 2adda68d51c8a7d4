// File: kube/client.h
//
// Verbs of the Kubernetes API, asynchronous. This is the interface that operators program against;
// HttpApiClient speaks to a real server, testing::FakeApiServer stands in for one in simulations.
//
//   client.Create(kPods, "research", body_json, {}, [](absl::StatusOr<Reply> reply) { ... });
//
// Every call ends in exactly one callback, on the executor that the client was given. Retries that
// are safe without knowing the outcome (429, 503, 401 with a fresh token, connection refused before
// the request was sent, reads) are done inside; an unknown outcome of a write comes back as
// kDeadlineExceeded or kUnavailable and is the caller's to resolve by reading.
//
// Errors: absl codes by the table of Status.reason (NotFound kNotFound, AlreadyExists
// kAlreadyExists, Conflict kAborted, Expired and Gone kOutOfRange, TooManyRequests
// kResourceExhausted, ServiceUnavailable and ServerTimeout kUnavailable, Timeout kDeadlineExceeded,
// Invalid and BadRequest kInvalidArgument, Forbidden kPermissionDenied, Unauthorized
// kUnauthenticated, InternalError kInternal); the message is the server's, GetErrorDetails gives
// reason and causes. kCancelled: it was not sent, since its sender leads no more.
//
// Thread-safety: calls from any thread. Cost: one request; at most `in_flight_max` at a time, the
// rest waits in the client.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace asterism::kube {

// A kind as it stands in URLs.
struct ResourceType {
  std::string_view group;    // empty: core
  std::string_view version;  // "v1"
  std::string_view plural;   // "pods"
  std::string_view kind;     // "Pod"
  bool namespaced = true;
  bool protobuf = true;  // false for custom resources: JSON only
};

inline constexpr ResourceType kPods{"", "v1", "pods", "Pod"};
inline constexpr ResourceType kNodes{"", "v1", "nodes", "Node", /*namespaced=*/false};
inline constexpr ResourceType kServices{"", "v1", "services", "Service"};
inline constexpr ResourceType kNamespaces{"", "v1", "namespaces", "Namespace", false};
// Never in protobuf: who reads them wants single keys.
inline constexpr ResourceType kSecrets{"", "v1", "secrets", "Secret", true, /*protobuf=*/false};
inline constexpr ResourceType kConfigMaps{"", "v1", "configmaps", "ConfigMap"};
inline constexpr ResourceType kLeases{"coordination.k8s.io", "v1", "leases", "Lease"};
inline constexpr ResourceType kEvents{"events.k8s.io", "v1", "events", "Event"};
inline constexpr ResourceType kPriorityClasses{"scheduling.k8s.io", "v1", "priorityclasses",
                                               "PriorityClass", false};
inline constexpr ResourceType kEndpointSlices{"discovery.k8s.io", "v1", "endpointslices",
                                              "EndpointSlice"};

struct Reply {
  int code = 200;
  std::string content_type;  // without parameters
  std::string body;
};

enum class PatchType { kApply, kMerge, kJson };

struct ObjectName {
  std::string namespace_name;  // empty for cluster-scoped kinds
  std::string name;
};

struct CreateOptions {
  bool dry_run = false;
};
struct PatchOptions {
  PatchType type = PatchType::kMerge;
  std::string subresource;    // "status", "scale" or empty
  std::string field_manager;  // needed for kApply
  bool force = true;          // kApply only
};
struct DeleteOptions {
  std::string uid;  // precondition; empty: none
  std::optional<int64_t> grace_period_seconds;
  std::string propagation;  // Background, Foreground, Orphan; empty: the kind's default
};

// The lanes keep one kind of traffic from starving another; see HttpApiClient.
enum class Lane { kWatch, kWrite, kLease };

using ReplyCallback = absl::AnyInvocable<void(absl::StatusOr<Reply>)>;

class Client {
 public:
  virtual ~Client() = default;

  virtual void Get(const ResourceType& type, ObjectName name, Lane lane, ReplyCallback done) = 0;
  // `body` is JSON of the whole object.
  virtual void Create(const ResourceType& type, std::string namespace_name, std::string body,
                      CreateOptions options, Lane lane, ReplyCallback done) = 0;
  // PUT; `body` carries the resourceVersion that was read.
  virtual void Update(const ResourceType& type, ObjectName name, std::string body, Lane lane,
                      ReplyCallback done) = 0;
  virtual void Patch(const ResourceType& type, ObjectName name, std::string body,
                     PatchOptions options, ReplyCallback done) = 0;
  // NotFound counts as done.
  virtual void Delete(const ResourceType& type, ObjectName name, DeleteOptions options,
                      ReplyCallback done) = 0;
};

struct ErrorCause {
  std::string reason;
  std::string message;
  std::string field;
};

// What the server said beside the message.
struct ErrorDetails {
  int http_code = 0;  // 0: no answer came
  std::string reason;
  std::vector<ErrorCause> causes;
  std::optional<absl::Duration> retry_after;
};

// Of a status that a Client returned. Empty details for any other status.
ErrorDetails GetErrorDetails(const absl::Status& status);

}  // namespace asterism::kube
