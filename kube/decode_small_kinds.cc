#include "base/status_macros.h"
#include "k8s/coordination.pb.h"
#include "k8s/core.pb.h"
#include "k8s/scheduling.pb.h"
#include "kube/decoder.h"
#include "kube/envelope.h"
#include "kube/meta_codec.h"

namespace asterism::kube {
namespace {

absl::StatusOr<ObjectMeta> DecodeMetaProtobuf(std::string_view bytes) {
  // metadata is field 1 of every kind.
  std::string_view metadata;
  RETURN_IF_ERROR(WalkFields(bytes, [&](uint32_t number, std::string_view payload) {
    if (number == 1) {
      metadata = payload;
    }
  }));
  google::protobuf::Arena arena;
  ASSIGN_OR_RETURN(const metav1::ObjectMeta* message,
                   ParseMessage<metav1::ObjectMeta>(metadata, arena));
  return MetaFrom(*message, {});
}

absl::StatusOr<Lease> DecodeLeaseJson(std::string_view text) {
  JsonReader reader;
  ASSIGN_OR_RETURN(const JsonObject root, reader.Parse(text));
  Lease lease;
  lease.meta = MetaFrom(reader, root, {});
  reader.Child(root, "spec", [&](const JsonObject& spec) {
    lease.holder = reader.Text(spec, "holderIdentity");
    lease.duration_seconds = static_cast<int32_t>(reader.Integer(spec, "leaseDurationSeconds"));
    lease.transitions = static_cast<int32_t>(reader.Integer(spec, "leaseTransitions"));
    lease.acquire_time = reader.Time(spec, "acquireTime", absl::InfinitePast());
    lease.renew_time = reader.Time(spec, "renewTime", absl::InfinitePast());
  });
  RETURN_IF_ERROR(reader.status());
  return lease;
}

absl::StatusOr<PriorityClass> DecodePriorityClassJson(std::string_view text) {
  JsonReader reader;
  ASSIGN_OR_RETURN(const JsonObject root, reader.Parse(text));
  PriorityClass priority;
  priority.meta = MetaFrom(reader, root, {});
  priority.value = static_cast<int32_t>(reader.Integer(root, "value"));
  priority.global_default = reader.Flag(root, "globalDefault");
  RETURN_IF_ERROR(reader.status());
  return priority;
}

}  // namespace

absl::StatusOr<ObjectMeta> DecodeMeta(const RawObject& object) {
  if (object.encoding == Encoding::kProtobuf) {
    return DecodeMetaProtobuf(object.bytes);
  }
  JsonReader reader;
  ASSIGN_OR_RETURN(const JsonObject root, reader.Parse(object.bytes));
  ObjectMeta meta = MetaFrom(reader, root, {});
  RETURN_IF_ERROR(reader.status());
  return meta;
}

absl::StatusOr<Lease> DecodeLease(const RawObject& object) {
  namespace pb = ::k8s::io::api::coordination::v1;
  if (object.encoding == Encoding::kJson) {
    return DecodeLeaseJson(object.bytes);
  }
  google::protobuf::Arena arena;
  ASSIGN_OR_RETURN(const pb::Lease* message, ParseMessage<pb::Lease>(object.bytes, arena));
  Lease lease;
  lease.meta = MetaFrom(message->metadata(), {});
  const pb::LeaseSpec& spec = message->spec();
  lease.holder = spec.holderidentity();
  lease.duration_seconds = spec.leasedurationseconds();
  lease.transitions = spec.leasetransitions();
  if (spec.has_acquiretime()) {
    lease.acquire_time = TimeFrom(spec.acquiretime());
  }
  if (spec.has_renewtime()) {
    lease.renew_time = TimeFrom(spec.renewtime());
  }
  return lease;
}

absl::StatusOr<Namespace> DecodeNamespace(const RawObject& object) {
  ASSIGN_OR_RETURN(ObjectMeta meta, DecodeMeta(object));
  return Namespace{std::move(meta)};
}

absl::StatusOr<PriorityClass> DecodePriorityClass(const RawObject& object) {
  namespace pb = ::k8s::io::api::scheduling::v1;
  if (object.encoding == Encoding::kJson) {
    return DecodePriorityClassJson(object.bytes);
  }
  google::protobuf::Arena arena;
  ASSIGN_OR_RETURN(const pb::PriorityClass* message,
                   ParseMessage<pb::PriorityClass>(object.bytes, arena));
  return PriorityClass{MetaFrom(message->metadata(), {}), message->value(),
                       message->globaldefault()};
}

}  // namespace asterism::kube
