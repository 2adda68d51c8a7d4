// File: launch/host_address.h
//
// Connects to a port of a host by name. A statically linked program cannot use the C library's
// resolver, which loads plug-ins of the image's own library: c-ares reads /etc/hosts and
// /etc/resolv.conf (search domains included) itself.
//
//   ASSIGN_OR_RETURN(const int socket, ConnectTo("llama-r8.llama.research.svc", 29600, limit));
//
// kUnavailable: the name has no address (yet), or nobody listens there (yet). kInvalidArgument: no
// host can have this name, so none is waited for.
//
// Thread-safety: for a program of one thread. Cost: a query and a handshake, or more.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace asterism::launch {

// A name of DNS (letters, digits, "-" and "_" between dots, 253 characters), an IPv4 or an IPv6
// address. kInvalidArgument says what to write instead.
absl::Status CheckHost(const std::string& host);

// A connected TCP socket. Tries again, with pauses, until `limit` is over: pods of a gang start
// one after the other.
absl::StatusOr<int> ConnectTo(const std::string& host, uint16_t port, absl::Duration limit);

}  // namespace asterism::launch
