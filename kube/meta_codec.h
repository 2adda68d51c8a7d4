// File: kube/meta_codec.h
//
// Conversions that the decoders of all kinds share; inside kube/ only, since it shows generated
// messages and simdjson.
//
// Thread-safety: pure functions. Cost: one copy of every string.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "google/protobuf/arena.h"
#include "k8s/meta.pb.h"
#include "k8s/resource.pb.h"
#include "kube/decoder.h"
#include "kube/json_reader.h"
#include "kube/object.h"
#include "kube/pod.h"

namespace asterism::kube {

namespace metav1 = ::k8s::io::apimachinery::pkg::apis::meta::v1;

// Which labels or annotations are kept. Users may hang 256 KiB of them on each of their pods, and
// every pod of the cluster is in memory, so of some kinds only those are kept that we read:
// kOurs is keys under asterism.dev/ with values up to 256 bytes, the first 32 in the order of keys.
enum class KeptPairs { kAll, kOurs };
struct KeptMeta {
  KeptPairs labels = KeptPairs::kAll;
  KeptPairs annotations = KeptPairs::kAll;
};
ObjectMeta MetaFrom(const metav1::ObjectMeta& message, KeptMeta kept);
ObjectMeta MetaFrom(JsonReader& reader, const JsonObject& root, KeptMeta kept);  // root: the object

// A message for people, cut to 1 KiB between two characters.
std::string BoundedMessage(std::string_view text);

// For Time and MicroTime.
template <typename Message>
absl::Time TimeFrom(const Message& message) {
  return absl::FromUnixSeconds(message.seconds()) + absl::Nanoseconds(message.nanos());
}

// For the conditions of pods and nodes, which are messages of their own.
template <typename Message>
Condition ConditionFrom(const Message& message) {
  Condition condition;
  condition.type = message.type();
  condition.status = message.status();
  if (message.has_lasttransitiontime()) {
    condition.last_transition_time = TimeFrom(message.lasttransitiontime());
  }
  condition.reason = message.reason();
  condition.message = BoundedMessage(message.message());
  return condition;
}
std::vector<Condition> ConditionsFrom(JsonReader& reader, const JsonObject& status);

// Adds one quantity to a list that is sorted by name; cpu in thousandths. Amounts of a name that is
// there already are added up, saturating.
absl::Status AddAmount(std::string_view name, std::string_view quantity, ResourceAmounts& amounts);

using QuantityMap =
    ::google::protobuf::Map<std::string, ::k8s::io::apimachinery::pkg::api::resource::Quantity>;
absl::StatusOr<ResourceAmounts> AmountsFrom(const QuantityMap& map);
ResourceAmounts AmountsFrom(JsonReader& reader, const JsonObject& object, std::string_view key);

// The amount of that name, or null.
ResourceAmount* FindAmount(ResourceAmounts& amounts, std::string_view name);

// Parses `bytes` into a message on `arena`.
template <typename Message>
absl::StatusOr<const Message*> ParseMessage(std::string_view bytes,
                                            google::protobuf::Arena& arena) {
  auto* message = google::protobuf::Arena::CreateMessage<Message>(&arena);
  if (bytes.size() > size_t{64} << 20 ||
      !message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError("protobuf object is malformed");
  }
  return message;
}

}  // namespace asterism::kube
