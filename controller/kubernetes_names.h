// File: controller/kubernetes_names.h
//
// The spelling rules of Kubernetes for names that people write into the configuration
// (apimachinery pkg/util/validation, and pkg/apis/core/v1/helper for extended resources).
//
//   if (!IsLabelKey("asterism.dev/declared-supernode")) ...
//
// Thread-safety: pure. Cost: linear in the name.
#pragma once

#include <string_view>

namespace asterism::controller {

// RFC 1123 subdomain: lower case, digits, '-' and '.', at most 253 characters.
bool IsDnsSubdomain(std::string_view name);
// [prefix/]name, the prefix a DNS subdomain, the name at most 63 characters of [A-Za-z0-9_.-].
bool IsLabelKey(std::string_view key);
// Empty, or as the name of a key.
bool IsLabelValue(std::string_view value);
// A name with a domain that is not Kubernetes' own: "nvidia.com/gpu", never "cpu".
bool IsExtendedResource(std::string_view name);

}  // namespace asterism::controller
