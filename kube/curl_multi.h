// File: kube/curl_multi.h
//
// A libcurl multi handle that is driven by its sockets; inside kube/. curl_multi_perform looks at
// every transfer whenever one of them has something, which with 256 writes in flight is most of
// their cost; curl_multi_socket_action looks at those of the connection that has something.
//
//   CurlMulti multi;
//   curl_multi_add_handle(multi.get(), easy);
//   while (...) { multi.Step(absl::Seconds(1)); /* curl_multi_info_read */ }
//   multi.Wake();   // from another thread: Step returns
//
// Thread-safety: Wake from any thread, the rest from one.
// Cost of a Step: one epoll_wait, and O(transfers) of each connection that is ready.
#pragma once

#include <curl/curl.h>

#include <optional>

#include "absl/time/time.h"
#include "base/clock.h"

namespace asterism::kube {

class CurlMulti {
 public:
  // Ends the process when there is no memory or file descriptor left.
  CurlMulti();
  // All easy handles must have been removed.
  ~CurlMulti();
  CurlMulti(const CurlMulti&) = delete;
  CurlMulti& operator=(const CurlMulti&) = delete;

  CURLM* get() { return multi_; }
  // Waits until a socket is ready, curl's own timer is due, Wake was called or `max_wait` is over,
  // and lets curl work.
  void Step(absl::Duration max_wait);
  void Wake();

 private:
  static int OnSocket(CURL* easy, curl_socket_t socket, int wanted, void* self, void* known);
  static int OnTimer(CURLM* multi, long timeout_ms, void* self);

  const base::SystemClock clock_;
  CURLM* const multi_;
  const int epoll_;
  const int wake_;
  // When curl wants to be called without a socket; curl_multi_add_handle asks for it, too.
  std::optional<base::SteadyTime> timer_;
};

}  // namespace asterism::kube
