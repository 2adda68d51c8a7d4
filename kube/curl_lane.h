// File: kube/curl_lane.h
//
// One libcurl multi handle and its thread; inside kube/. See curl_http_client.h.
//
// Thread-safety: Start and Cancel from any thread. Cost: one wake-up of the thread a call.
#pragma once

#include <curl/curl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "kube/curl_http_client.h"

namespace asterism::kube {

using TransferId = uint64_t;

// One request on its way. Lives on the lane's thread once it has been started.
struct CurlTransfer {
  TransferId id = 0;
  HttpRequest request;
  HttpCallback done;                           // of Send
  std::shared_ptr<HttpStreamHandler> handler;  // of Open
  HttpResult result;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  curl_slist* connect_to = nullptr;
};

class CurlLane {
 public:
  CurlLane(const CurlOptions& options, Lane lane, int connections);
  ~CurlLane();

  TransferId Start(std::unique_ptr<CurlTransfer> transfer);
  void Cancel(TransferId id);
  // Ends the thread; what runs ends with kCancelled. Not from a callback.
  void Stop();

 private:
  void Run();
  // Takes over what other threads have left; false when the lane is to end.
  bool TakeCommands();
  void Launch(std::unique_ptr<CurlTransfer> transfer);
  void SetOptions(CurlTransfer& transfer);
  void SetTls(CURL* easy, const Credentials* credentials);
  void SetHeaders(CurlTransfer& transfer);
  void ReapFinished();
  void Finish(CurlTransfer& transfer, CURLcode code);
  // Gives the handle back and forgets the transfer.
  std::unique_ptr<CurlTransfer> Detach(TransferId id);
  void AbortAll();

  const CurlOptions options_;
  const Lane lane_;
  std::string host_and_port_;  // of options_.server, for tls_server_name
  std::string url_prefix_;
  CURLM* const multi_;

  absl::Mutex mutex_;
  TransferId last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<CurlTransfer>> added_ ABSL_GUARDED_BY(mutex_);
  std::vector<TransferId> cancelled_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  // Of the lane's thread.
  absl::flat_hash_map<TransferId, std::unique_ptr<CurlTransfer>> running_;
  std::vector<CURL*> spare_handles_;

  std::thread thread_;
};

}  // namespace asterism::kube
