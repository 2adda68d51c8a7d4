// File: server/http_routes.h
//
// What a program answers: handlers by exact method and path. A handler is a plain function, so this
// folder knows nobody who uses it.
//
//   HttpRoutes routes;
//   routes.Add("POST", "/extender/filter", [&](const HttpRequest& request, HttpResponse& response)
//   {
//     response.code = extender.Filter(request.body, response.body);
//   });
//
// A handler runs on an I/O thread and holds up every connection of that thread: it answers from
// memory, in microseconds, and waits for nothing. With two I/O threads it may run twice at once.
//
// Thread-safety: Add before the server starts; immutable afterwards. Cost: Find is two hash
// look-ups.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"

namespace asterism::server {

// Bytes behind a request's body that may be read (they are zero), so that a SIMD parser can work in
// place.
inline constexpr size_t kBodyPadding = 64;

// Views are valid until the handler returns.
struct HttpRequest {
  std::string_view method;
  std::string_view path;   // as sent, without the query, not percent-decoded
  std::string_view query;  // behind the '?', may be empty
  std::string_view body;   // kBodyPadding readable bytes follow
  std::string_view content_type;
};

struct HttpResponse {
  int code = 200;
  std::string_view content_type = "application/json";  // a literal
  // Empty when the handler is called, with room from earlier answers of the connection.
  std::string body;
};

using HttpHandler = std::function<void(const HttpRequest&, HttpResponse&)>;

class HttpRoutes {
 public:
  // Method and path together are unique (checked). A GET route answers HEAD too.
  void Add(std::string_view method, std::string_view path, HttpHandler handler);

  // The handler, or null with `allowed` = the methods that the path has ("GET, HEAD"), empty when
  // there is no such path.
  const HttpHandler* Find(std::string_view method, std::string_view path,
                          std::string& allowed) const;

 private:
  struct Route {
    std::string method;
    HttpHandler handler;
  };
  base::StringMap<std::vector<Route>> routes_by_path_;
};

}  // namespace asterism::server
