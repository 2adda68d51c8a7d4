#include "controller/endpoint_publisher.h"

#include <utility>

#include "base/log.h"
#include "kube/decoder.h"

namespace asterism::controller {
namespace {

absl::StatusOr<kube::ObjectMeta> MetaOf(const kube::Reply& reply) {
  const absl::StatusOr<kube::RawObject> object = kube::ObjectOf(reply);
  return object.ok() ? kube::DecodeMeta(*object) : object.status();
}

}  // namespace

EndpointPublisher::EndpointPublisher(base::Executor& executor, kube::Client& client,
                                     std::function<bool()> may_write,
                                     EndpointPublisherOptions options)
    : client_(client),
      may_write_(std::move(may_write)),
      options_(std::move(options)),
      endpoint_(options_.endpoint),
      timer_(executor) {}

// Read each time: with the UID of a Service that is gone as its owner the slice would be collected.
void EndpointPublisher::ReadService() {
  client_.Get(kube::kServices, {endpoint_.namespace_name, std::string(kExtenderService)},
              kube::Lane::kWrite,
              alive_.Wrap([this](const absl::StatusOr<kube::Reply>& reply) { OnService(reply); }));
}

void EndpointPublisher::OnService(const absl::StatusOr<kube::Reply>& reply) {
  const absl::StatusOr<kube::ObjectMeta> service = reply.ok() ? MetaOf(*reply) : reply.status();
  if (service.ok()) {
    service_seen_ = true;
    endpoint_.service_uid = may_own_ ? service->uid : "";
  } else if (absl::IsNotFound(service.status())) {
    if (service_seen_) {
      // The installation is being removed: a slice without an owner would stay behind.
      timer_.Start(options_.look_period, [this] { ReadService(); });
      return;
    }
    endpoint_.service_uid.clear();
  } else {
    Retry(service.status());
    return;
  }
  ReadSlice();
}

void EndpointPublisher::ReadSlice() {
  client_.Get(kube::kEndpointSlices,
              {endpoint_.namespace_name, std::string(kExtenderEndpointSlice)}, kube::Lane::kWrite,
              alive_.Wrap([this](const absl::StatusOr<kube::Reply>& reply) { OnSlice(reply); }));
}

void EndpointPublisher::OnSlice(const absl::StatusOr<kube::Reply>& reply) {
  if (absl::IsNotFound(reply.status())) {
    Write("");
    return;
  }
  const absl::StatusOr<kube::ObjectMeta> slice = reply.ok() ? MetaOf(*reply) : reply.status();
  if (!slice.ok()) {
    Retry(slice.status());
  } else if (IsPublished(endpoint_, reply->body)) {
    timer_.Start(options_.look_period, [this] { ReadService(); });
  } else {
    Write(slice->resource_version);
  }
}

void EndpointPublisher::Write(std::string_view resource_version) {
  if (!may_write_()) {
    Retry(absl::CancelledError("not the leader"));
    return;
  }
  client_.Patch(
      kube::kEndpointSlices, {endpoint_.namespace_name, std::string(kExtenderEndpointSlice)},
      EndpointSliceBody(endpoint_, resource_version),
      {.type = kube::PatchType::kApply, .field_manager = options_.field_manager},
      alive_.Wrap([this](const absl::StatusOr<kube::Reply>& reply) { OnWritten(reply.status()); }));
}

void EndpointPublisher::OnWritten(const absl::Status& status) {
  if (status.ok()) {
    base::LogInfo("endpoint_published", {{"address", endpoint_.pod_ip}});
    timer_.Start(options_.look_period, [this] { ReadService(); });
    return;
  }
  // Some clusters let only those name an owner who may delete the object. Being found matters more.
  if (absl::IsPermissionDenied(status) && !endpoint_.service_uid.empty()) {
    may_own_ = false;
  }
  Retry(status);
}

void EndpointPublisher::Retry(const absl::Status& status) {
  base::LogWarning("endpoint_not_published", {{"error", std::string(status.message())}});
  timer_.Start(options_.retry_period, [this] { ReadService(); });
}

}  // namespace asterism::controller
