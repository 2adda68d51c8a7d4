// File: kube/decoder.h
//
// From the bytes of one object to a plain struct. Built-in kinds come as protobuf or JSON, custom
// resources as JSON; a decoder of a custom kind is a function over the JSON text.
//
//   ASSIGN_OR_RETURN(const RawObject object, ObjectOf(reply));
//   ASSIGN_OR_RETURN(const Pod pod, DecodePod(object));
//   Informer<TrainingJob> jobs(source, ..., DecodeTrainingJob, ...);   // Decoder<TrainingJob>
//
// A T that an Informer stores has a member `ObjectMeta meta`. managedFields are dropped.
//
// Thread-safety: pure functions, called from transport threads too. Cost: DecodePod of a full pod
// takes some microseconds from protobuf (one arena each), about twice that from JSON.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kube/client.h"
#include "kube/lease.h"
#include "kube/namespace.h"
#include "kube/node.h"
#include "kube/object.h"
#include "kube/pod.h"
#include "kube/priority_class.h"

namespace asterism::kube {

enum class Encoding { kJson, kProtobuf };

// A view: the bytes belong to whoever made it.
struct RawObject {
  Encoding encoding = Encoding::kJson;
  std::string_view bytes;  // kJson: one JSON object; kProtobuf: the message without envelope
};

template <typename T>
using Decoder = std::function<absl::StatusOr<T>(const RawObject&)>;

absl::StatusOr<Pod> DecodePod(const RawObject& object);
absl::StatusOr<Node> DecodeNode(const RawObject& object);
absl::StatusOr<Lease> DecodeLease(const RawObject& object);
absl::StatusOr<Namespace> DecodeNamespace(const RawObject& object);
absl::StatusOr<PriorityClass> DecodePriorityClass(const RawObject& object);
// The metadata of any kind.
absl::StatusOr<ObjectMeta> DecodeMeta(const RawObject& object);

// True for the kinds above: the client asks for protobuf only where it can be read here.
bool HasProtobufDecoder(const ResourceType& type);

// The object in a reply (a view into it), with the protobuf envelope taken off.
absl::StatusOr<RawObject> ObjectOf(const Reply& reply);

// One page of a list: views into the reply.
struct ListPage {
  std::string resource_version;
  std::string continue_token;  // empty: the last page
  std::vector<RawObject> items;
};
absl::StatusOr<ListPage> ListPageOf(const Reply& reply);

// "application/vnd.kubernetes.protobuf" is protobuf, everything else is taken for JSON.
Encoding EncodingOf(std::string_view content_type);

}  // namespace asterism::kube
