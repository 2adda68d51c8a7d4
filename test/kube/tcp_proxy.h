// File: test/kube/tcp_proxy.h
//
// A TCP proxy on loopback that tests can make misbehave: cut its connections, or swallow bytes.
//
//   TcpProxy proxy(server_port);   proxy.port();  proxy.Cut();  proxy.Swallow(true);
//
// Thread-safety: yes; it has a thread of its own. Cost: for tests only.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

namespace asterism::kube {

class TcpProxy {
 public:
  explicit TcpProxy(int target_port);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  int port() const { return port_; }
  // Closes all connections; new ones are accepted.
  void Cut();
  // Nothing is passed on any more, though connections look alive.
  void Swallow(bool swallow) { swallow_ = swallow; }

 private:
  struct Pair {
    int client = -1;
    int server = -1;
  };
  void Run();
  void Accept();
  bool Forward(int from, int to);

  const int target_port_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<bool> cut_{false};
  std::atomic<bool> swallow_{false};
  std::vector<Pair> pairs_;  // of the thread
  std::thread thread_;
};

}  // namespace asterism::kube
