// File: controller/object_names.h
//
// Names of objects that callers send us, before they are used, kept or repeated.
//
//   RETURN_IF_ERROR(CheckNamespaceName("job.namespace", request.job().namespace_()));
//   RETURN_IF_ERROR(CheckObjectName("job.name", request.job().name()));
//
// kInvalidArgument names the field and the remedy, and never repeats the name. The rules are those
// of the API server for metadata.name (apimachinery pkg/api/validation), so a name that is refused
// here is that of no object.
//
// Thread-safety: pure. Cost: linear, at most 253 characters.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace asterism::controller {

// RFC 1123 subdomain, of at most 253 characters. Its labels may be of any length, as in the API.
absl::Status CheckObjectName(std::string_view field, std::string_view name);
// RFC 1123 label, of at most 63 characters.
absl::Status CheckNamespaceName(std::string_view field, std::string_view name);

}  // namespace asterism::controller
