// File: agent/probe/metadata_http.h
//
// One request to the metadata service of a cloud: plain HTTP to a link-local address, no redirect,
// no proxy, within a time and a size.
//
//   ASSIGN_OR_RETURN(const std::string text, AskMetadata({.url = "http://169.254.169.254/..."}));
//
// kNotFound: the service answers 404, the machine has no such fact. Other errors name the URL.
//
// Thread-safety: yes, after the first call. Cost: one connection; waits up to the timeout.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace asterism::agent {

struct MetadataRequest {
  std::string url;
  std::vector<std::string> headers;  // "Metadata-Flavor: Google"
  bool put = false;
  absl::Duration timeout = absl::Seconds(1);
  size_t bytes_max = size_t{64} << 10;
};

absl::StatusOr<std::string> AskMetadata(const MetadataRequest& request);

}  // namespace asterism::agent
