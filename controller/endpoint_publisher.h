// File: controller/endpoint_publisher.h
//
// Keeps the extender's EndpointSlice saying that this process leads, as long as it lives: looks
// every 10 s, and writes only what differs, so that a late write of an earlier leader or a deleted
// slice is put right and an idle leader writes nothing.
//
//   EndpointPublisher publisher(executor, client, may_write, {.endpoint = {...}});
//   publisher.Start();      // destroyed when the Lease is lost
//
// A write carries the resourceVersion that was read: one that is late meets a conflict.
//
// Thread-safety: lives on one executor. Cost: two small reads every 10 s.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/executor.h"
#include "controller/endpoint.h"
#include "kube/client.h"

namespace asterism::controller {

struct EndpointPublisherOptions {
  LeaderEndpoint endpoint;  // service_uid is found out
  std::string field_manager;
  absl::Duration look_period = absl::Seconds(10);
  absl::Duration retry_period = absl::Seconds(1);
};

class EndpointPublisher {
 public:
  EndpointPublisher(base::Executor& executor, kube::Client& client, std::function<bool()> may_write,
                    EndpointPublisherOptions options);

  void Start() { ReadService(); }

 private:
  void ReadService();
  void OnService(const absl::StatusOr<kube::Reply>& reply);
  void ReadSlice();
  void OnSlice(const absl::StatusOr<kube::Reply>& reply);
  void Write(std::string_view resource_version);
  void OnWritten(const absl::Status& status);
  void Retry(const absl::Status& status);

  kube::Client& client_;
  const std::function<bool()> may_write_;
  const EndpointPublisherOptions options_;

  LeaderEndpoint endpoint_;
  bool may_own_ = true;
  bool service_seen_ = false;
  base::OwnedTimer timer_;
  base::Alive alive_;
};

}  // namespace asterism::controller
