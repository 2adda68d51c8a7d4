// File: kube/resource_path.h
//
// URLs of the API: /api/v1/namespaces/research/pods/llama-0/status?fieldManager=asterism.
//
//   UrlQuery query;  query.Add("limit", "500");
//   std::string target = ObjectPath(kPods, {"research", "llama-0"}, "status") + query.Text();
//
// Thread-safety: none; values. Cost: one string.
#pragma once

#include <string>
#include <string_view>

#include "kube/client.h"

namespace asterism::kube {

// Percent-encodes everything but letters, digits and -._~
std::string UrlEncode(std::string_view text);

class UrlQuery {
 public:
  // An empty value is left out.
  void Add(std::string_view key, std::string_view value);
  // "?a=b&c=d", or empty.
  const std::string& Text() const { return text_; }

 private:
  std::string text_;
};

// Of a collection; `namespace_name` empty: of all namespaces.
std::string CollectionPath(const ResourceType& type, std::string_view namespace_name);
std::string ObjectPath(const ResourceType& type, const ObjectName& name,
                       std::string_view subresource);

}  // namespace asterism::kube
