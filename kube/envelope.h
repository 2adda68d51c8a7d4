// File: kube/envelope.h
//
// The protobuf framing of the API server: the magic "k8s\0" with runtime.Unknown around every
// object, and the outline (field number, bytes) of a message, read in place without a copy.
//
//   ASSIGN_OR_RETURN(const Envelope envelope, OpenEnvelope(body));
//   DecodePod({Encoding::kProtobuf, envelope.raw});
//
// Format: apimachinery pkg/runtime/serializer/protobuf/protobuf.go.
// Thread-safety: pure functions. Cost: some tens of nanoseconds; no allocation.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace asterism::kube {

// Views into the bytes that were opened.
struct Envelope {
  std::string_view api_version;
  std::string_view kind;
  std::string_view raw;  // the object without apiVersion and kind
};

absl::StatusOr<Envelope> OpenEnvelope(std::string_view bytes);

// Calls visit(number, payload) for each length-delimited field of a protobuf message, in order, and
// steps over fields of other wire types.
absl::Status WalkFields(std::string_view message,
                        absl::FunctionRef<void(uint32_t number, std::string_view payload)> visit);

}  // namespace asterism::kube
