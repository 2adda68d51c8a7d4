#include "kube/resource_path.h"

namespace asterism::kube {

std::string UrlEncode(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += '%';
      encoded += kHex[byte >> 4];
      encoded += kHex[byte & 15];
    }
  }
  return encoded;
}

void UrlQuery::Add(std::string_view key, std::string_view value) {
  if (value.empty()) {
    return;
  }
  text_ += text_.empty() ? '?' : '&';
  text_ += key;
  text_ += '=';
  text_ += UrlEncode(value);
}

std::string CollectionPath(const ResourceType& type, std::string_view namespace_name) {
  std::string path = type.group.empty() ? "/api" : "/apis/";
  path += type.group;
  path += '/';
  path += type.version;
  if (type.namespaced && !namespace_name.empty()) {
    path += "/namespaces/";
    path += UrlEncode(namespace_name);
  }
  path += '/';
  path += type.plural;
  return path;
}

std::string ObjectPath(const ResourceType& type, const ObjectName& name,
                       std::string_view subresource) {
  std::string path = CollectionPath(type, name.namespace_name);
  path += '/';
  path += UrlEncode(name.name);
  if (!subresource.empty()) {
    path += '/';
    path += subresource;
  }
  return path;
}

}  // namespace asterism::kube
