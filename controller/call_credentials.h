// File: controller/call_credentials.h
//
// What a gRPC call brings along to show who calls: the common name of a client certificate that one
// of our client authorities signed, and the bearer token in its metadata.
//
// For the sources that see gRPC; include it nowhere else. Thread-safety: as the context. Cost: two
// look-ups.
#pragma once

#include "controller/caller_identity.h"
#include "grpcpp/support/server_callback.h"

namespace asterism::controller {

Credentials CredentialsOf(const grpc::CallbackServerContext& context);

}  // namespace asterism::controller
