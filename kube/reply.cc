#include <array>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "kube/decoder.h"
#include "kube/envelope.h"
#include "kube/json_split.h"
#include "kube/meta_codec.h"

namespace asterism::kube {
namespace {

constexpr std::string_view kProtobufType = "application/vnd.kubernetes.protobuf";

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kDecodedKinds = {{
    {"", "pods"},
    {"", "nodes"},
    {"", "namespaces"},
    {"coordination.k8s.io", "leases"},
    {"scheduling.k8s.io", "priorityclasses"},
}};

absl::StatusOr<ListPage> ProtobufListPage(std::string_view raw) {
  ListPage page;
  std::string_view metadata;
  RETURN_IF_ERROR(WalkFields(raw, [&](uint32_t number, std::string_view payload) {
    if (number == 1) {
      metadata = payload;
    } else if (number == 2) {
      page.items.push_back({Encoding::kProtobuf, payload});
    }
  }));
  google::protobuf::Arena arena;
  ASSIGN_OR_RETURN(const metav1::ListMeta* meta, ParseMessage<metav1::ListMeta>(metadata, arena));
  page.resource_version = meta->resourceversion();
  page.continue_token = meta->continue_();
  return page;
}

}  // namespace

Encoding EncodingOf(std::string_view content_type) {
  return content_type.starts_with(kProtobufType) ? Encoding::kProtobuf : Encoding::kJson;
}

bool HasProtobufDecoder(const ResourceType& type) {
  if (!type.protobuf) {
    return false;
  }
  for (const auto& [group, plural] : kDecodedKinds) {
    if (group == type.group && plural == type.plural) {
      return true;
    }
  }
  return false;
}

absl::StatusOr<RawObject> ObjectOf(const Reply& reply) {
  if (EncodingOf(reply.content_type) == Encoding::kJson) {
    return RawObject{Encoding::kJson, reply.body};
  }
  ASSIGN_OR_RETURN(const Envelope envelope, OpenEnvelope(reply.body));
  return RawObject{Encoding::kProtobuf, envelope.raw};
}

absl::StatusOr<ListPage> ListPageOf(const Reply& reply) {
  if (EncodingOf(reply.content_type) == Encoding::kProtobuf) {
    ASSIGN_OR_RETURN(const Envelope envelope, OpenEnvelope(reply.body));
    return ProtobufListPage(envelope.raw);
  }
  ASSIGN_OR_RETURN(JsonList list, SplitJsonList(reply.body));
  ListPage page;
  page.resource_version = std::move(list.resource_version);
  page.continue_token = std::move(list.continue_token);
  page.items.reserve(list.items.size());
  for (const std::string_view item : list.items) {
    page.items.push_back({Encoding::kJson, item});
  }
  return page;
}

}  // namespace asterism::kube
