// File: cli/controller_page.h
//
// A page of asterism-controller: asked for directly (--server) or through the API server's proxy to
// its Service, with the user's own rights. Errors say what is missing: the right, the Service, its
// port, or a controller that leads.
//
//   ASSIGN_OR_RETURN(const std::string body,
//                    ReadControllerPage({.server = "http://127.0.0.1:9090"}, nullptr,
//                    "/topologyz"));
//
// Thread-safety: none. Cost: one request.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cli/server_session.h"

namespace asterism::cli {

struct ControllerAddress {
  std::string server;          // http://HOST:PORT or https://HOST:PORT; empty: by the Service
  std::string ca_pem;          // for https; empty: the system's authorities
  std::string namespace_name;  // of the Service
};

// `api`: where `server` is empty.
absl::StatusOr<std::string> ReadControllerPage(const ControllerAddress& address, ServerSession* api,
                                               std::string_view path);

}  // namespace asterism::cli
