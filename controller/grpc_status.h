// File: controller/grpc_status.h
//
// Our errors as gRPC tells them.
//
//   Finish(ToGrpc(absl::NotFoundError("there is no TrainingJob a/b: see `kubectl get tj -A`")));
//
// Messages repeat what callers wrote, and are read on terminals: bytes that are no printable ASCII
// become \xNN, and what is long is cut, since it travels in headers.
//
// For the sources that see gRPC; include it nowhere else. Thread-safety: pure. Cost: linear.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace asterism::controller {

inline constexpr size_t kGrpcMessageBytesMax = 2048;

grpc::Status ToGrpc(const absl::Status& status);

}  // namespace asterism::controller
