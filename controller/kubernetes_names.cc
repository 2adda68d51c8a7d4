#include "controller/kubernetes_names.h"

#include <algorithm>
#include <cstddef>

namespace asterism::controller {
namespace {

bool IsLowerAlphanumeric(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9');
}
bool IsAlphanumeric(char letter) {
  return IsLowerAlphanumeric(letter) || (letter >= 'A' && letter <= 'Z');
}

bool IsDnsLabel(std::string_view label) {
  return !label.empty() && label.size() <= 63 && IsLowerAlphanumeric(label.front()) &&
         IsLowerAlphanumeric(label.back()) && std::all_of(label.begin(), label.end(), [](char c) {
           return IsLowerAlphanumeric(c) || c == '-';
         });
}

bool IsNamePart(std::string_view name) {
  return !name.empty() && name.size() <= 63 && IsAlphanumeric(name.front()) &&
         IsAlphanumeric(name.back()) && std::all_of(name.begin(), name.end(), [](char c) {
           return IsAlphanumeric(c) || c == '-' || c == '_' || c == '.';
         });
}

}  // namespace

bool IsDnsSubdomain(std::string_view name) {
  if (name.size() > 253) {
    return false;
  }
  for (;;) {
    const size_t dot = name.find('.');
    if (!IsDnsLabel(name.substr(0, dot))) {
      return false;
    }
    if (dot == std::string_view::npos) {
      return true;
    }
    name.remove_prefix(dot + 1);
  }
}

bool IsLabelKey(std::string_view key) {
  const size_t slash = key.find('/');
  if (slash == std::string_view::npos) {
    return IsNamePart(key);
  }
  return IsDnsSubdomain(key.substr(0, slash)) && IsNamePart(key.substr(slash + 1));
}

bool IsLabelValue(std::string_view value) {
  return value.empty() || IsNamePart(value);
}

bool IsExtendedResource(std::string_view name) {
  const size_t slash = name.find('/');
  return slash != std::string_view::npos && IsLabelKey(name) &&
         !name.substr(0, slash).ends_with("kubernetes.io") && !name.starts_with("requests.");
}

}  // namespace asterism::controller
