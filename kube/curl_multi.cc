#include "kube/curl_multi.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/check.h"

namespace asterism::kube {
namespace {

constexpr size_t kEventsMax = 64;

int ToCurl(uint32_t events) {
  int ready = 0;
  if ((events & EPOLLIN) != 0) {
    ready |= CURL_CSELECT_IN;
  }
  if ((events & EPOLLOUT) != 0) {
    ready |= CURL_CSELECT_OUT;
  }
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
    ready |= CURL_CSELECT_ERR;
  }
  return ready;
}

}  // namespace

CurlMulti::CurlMulti()
    : multi_(curl_multi_init()),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  CHECK_THAT(multi_ != nullptr, "curl_multi_init failed");
  CHECK_THAT(epoll_ >= 0 && wake_ >= 0, "no file descriptor is left");
  epoll_event event{.events = EPOLLIN, .data = {.fd = wake_}};
  CHECK_THAT(epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event) == 0, "epoll_ctl failed");
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, OnSocket);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, OnTimer);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
}

CurlMulti::~CurlMulti() {
  curl_multi_cleanup(multi_);  // calls back for each connection that it closes
  close(wake_);
  close(epoll_);
}

void CurlMulti::Wake() {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then it wakes already.
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));
}

void CurlMulti::Step(absl::Duration max_wait) {
  absl::Duration wait = max_wait;
  if (timer_) {
    wait = std::clamp(*timer_ - clock_.SteadyNow(), absl::ZeroDuration(), max_wait);
  }
  // Up: woken a moment too early, it would only go round once more.
  const auto wait_ms =
      static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1))));
  std::array<epoll_event, kEventsMax> events;
  const int count = epoll_wait(epoll_, events.data(), kEventsMax, wait_ms);
  int running = 0;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    if (event.data.fd == wake_) {
      uint64_t wakes = 0;
      [[maybe_unused]] const ssize_t bytes = read(wake_, &wakes, sizeof(wakes));
    } else {
      curl_multi_socket_action(multi_, event.data.fd, ToCurl(event.events), &running);
    }
  }
  if (timer_ && clock_.SteadyNow() >= *timer_) {
    timer_.reset();
    curl_multi_socket_action(multi_, CURL_SOCKET_TIMEOUT, 0, &running);
  }
}

int CurlMulti::OnSocket(CURL* /*easy*/, curl_socket_t socket, int wanted, void* self, void* known) {
  CurlMulti& owner = *static_cast<CurlMulti*>(self);
  epoll_event event{.events = 0, .data = {.fd = socket}};
  if (wanted == CURL_POLL_REMOVE) {
    // curl may have closed it already.
    epoll_ctl(owner.epoll_, EPOLL_CTL_DEL, socket, &event);
    return 0;
  }
  event.events = (wanted & CURL_POLL_IN ? EPOLLIN : 0U) | (wanted & CURL_POLL_OUT ? EPOLLOUT : 0U);
  const int operation = known != nullptr ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  CHECK_THAT(epoll_ctl(owner.epoll_, operation, socket, &event) == 0, "epoll_ctl failed");
  // What curl gives back as `known` from now on: any pointer that is not null.
  curl_multi_assign(owner.multi_, socket, self);
  return 0;
}

int CurlMulti::OnTimer(CURLM* /*multi*/, long timeout_ms, void* self) {
  CurlMulti& owner = *static_cast<CurlMulti*>(self);
  owner.timer_.reset();
  if (timeout_ms >= 0) {
    owner.timer_ = owner.clock_.SteadyNow() + absl::Milliseconds(timeout_ms);
  }
  return 0;
}

}  // namespace asterism::kube
