#include "server/http_routes.h"

#include <utility>

#include "base/check.h"

namespace asterism::server {

void HttpRoutes::Add(std::string_view method, std::string_view path, HttpHandler handler) {
  std::vector<Route>& routes = routes_by_path_[std::string(path)];
  for (const Route& route : routes) {
    CHECK_THAT(route.method != method, "route added twice: " + std::string(path));
  }
  routes.push_back({std::string(method), std::move(handler)});
}

const HttpHandler* HttpRoutes::Find(std::string_view method, std::string_view path,
                                    std::string& allowed) const {
  allowed.clear();
  const auto found = routes_by_path_.find(path);
  if (found == routes_by_path_.end()) {
    return nullptr;
  }
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  for (const Route& route : found->second) {
    if (route.method == wanted) {
      return &route.handler;
    }
  }
  for (const Route& route : found->second) {
    allowed += allowed.empty() ? "" : ", ";
    allowed += route.method;
    if (route.method == "GET") {
      allowed += ", HEAD";
    }
  }
  return nullptr;
}

}  // namespace asterism::server
