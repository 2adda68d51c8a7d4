// File: kube/http_api_client.h
//
// Client and WatchSource over HTTP: paths, encodings, credentials, errors, and the retries that are
// safe without knowing the outcome.
//
//   CurlHttpClient http(CurlOptions::From(config));
//   HttpApiClient client(executor, rng, http, config, {});
//   client.Create(kPods, "research", body, {}, Lane::kWrite, [](absl::StatusOr<Reply> reply)
//   {...});
//
// Pods, nodes, leases, namespaces and priority classes are asked for as protobuf, everything else
// as JSON (HasProtobufDecoder); a server that cannot is asked for JSON from then on.
//
// In flight on the write lane: at most `in_flight_max`, halved by an answer of 429, raised by one
// for every 16 answers that are none. Requests beyond wait here, in order.
//
// A leader sets `set_may_send`: what it asked for and still waits then ends with kCancelled instead
// of going out after it has lost the Lease.
//
// Retried inside (never on the lease lane, whose caller has a deadline of its own): 429 and 503
// after Retry-After, a request that never left, and for reads also 500, 504 and a lost answer.
//
// Thread-safety: verbs from any thread; callbacks of Client on the executor, those of WatchSource
// on a transport thread or the executor. A request that has to wait for credentials holds up nobody
// else. Cost: one post and one request; 1,280 creates take about a second of
// server.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "base/executor.h"
#include "base/rng.h"
#include "kube/client.h"
#include "kube/credentials.h"
#include "kube/executor_gate.h"
#include "kube/http_client.h"
#include "kube/kubeconfig.h"
#include "kube/request_metrics.h"
#include "kube/watch_source.h"

namespace asterism::kube {

struct HttpApiClientOptions {
  int in_flight_max = 256;
  size_t waiting_max = 100'000;  // beyond: kResourceExhausted at once
  int tries_max = 10;            // of 429, 503 and requests that never left
  int read_tries_max = 4;        // of reads after 500, 504 or a lost answer
  absl::Duration write_timeout = absl::Seconds(10);
  absl::Duration lease_timeout = absl::Seconds(5);
  absl::Duration list_timeout = absl::Seconds(60);
  absl::Duration retry_first = absl::Milliseconds(100);  // doubled each time
  absl::Duration retry_max = absl::Seconds(5);
  RequestMetrics* metrics = nullptr;  // outlives the HttpClient; null: none
};

struct HttpApiClientStats {
  uint64_t requests = 0;
  uint64_t retries = 0;
  uint64_t throttled = 0;  // answers of 429
  int in_flight = 0;
  int in_flight_cap = 0;
  size_t waiting = 0;
};

class HttpApiClient final : public Client, public WatchSource {
 public:
  // The references outlive this; `http` is destroyed after it.
  HttpApiClient(base::Executor& executor, base::Rng rng, HttpClient& http, ApiConfig config,
                HttpApiClientOptions options);
  // On the executor, or when it no longer runs. Calls in flight end without a callback.
  ~HttpApiClient() override;

  void Get(const ResourceType& type, ObjectName name, Lane lane, ReplyCallback done) override;
  void Create(const ResourceType& type, std::string namespace_name, std::string body,
              CreateOptions options, Lane lane, ReplyCallback done) override;
  void Update(const ResourceType& type, ObjectName name, std::string body, Lane lane,
              ReplyCallback done) override;
  void Patch(const ResourceType& type, ObjectName name, std::string body, PatchOptions options,
             ReplyCallback done) override;
  void Delete(const ResourceType& type, ObjectName name, DeleteOptions options,
              ReplyCallback done) override;

  void List(const ResourceType& type, ListRequest request, ReplyCallback done) override;
  std::unique_ptr<WatchStream> Watch(const ResourceType& type, WatchRequest request,
                                     std::shared_ptr<WatchHandler> handler) override;

  // GET of any path ("/apis", "/version", "/openapi/v3"), JSON, with the rules of reads.
  void GetPath(std::string path, ReplyCallback done);

  // Asked on the executor before each try of a write of the write lane; false: it is not sent.
  // Reads and the lease lane are exempt. Set it on the executor, or before it has work.
  void set_may_send(std::function<bool()> may_send) { may_send_ = std::move(may_send); }

  // On the executor.
  HttpApiClientStats stats() const;
  const std::string& namespace_name() const { return config_.namespace_name; }

 private:
  // A request with what is needed to send it again.
  struct Call {
    HttpRequest request;
    std::string resource;  // "group/plural", for the choice of the encoding; empty: JSON
    std::string_view verb = "get";
    std::string_view plural;  // of a ResourceType; empty: GetPath
    ReplyCallback done;
    bool read = false;
    bool missing_is_done = false;  // DELETE
    int tries = 0;
    bool refreshed = false;  // credentials, after a 401
    uint64_t cap_epoch = 0;  // of in-flight control, when it was sent
    base::SteadyTime sent;   // with metrics
  };
  // What transport threads use too.
  class Shared;

  std::unique_ptr<Call> NewCall(const ResourceType& type, std::string_view verb, std::string target,
                                Lane lane, ReplyCallback done) const;
  void Submit(std::unique_ptr<Call> call);
  void Dispatch(std::unique_ptr<Call> call);
  // Calls `next` on the executor: at once when we are there and the credentials are too.
  void WithCredentials(CredentialsCallback next);
  void SendNow(std::unique_ptr<Call> call);
  void Transmit(std::unique_ptr<Call> call, absl::StatusOr<CredentialsPtr> credentials);
  void EndUnsent(std::unique_ptr<Call> call, absl::Status status);
  void SendList(HttpRequest request, std::string resource, bool second_try, ReplyCallback done);
  void OnResult(std::unique_ptr<Call> call, HttpResult result);
  // True when the call was taken over to be sent again.
  bool MaybeRetry(std::unique_ptr<Call>& call, const HttpResult& result);
  void SendLater(std::unique_ptr<Call> call, absl::Duration delay);
  void AdjustCap(const Call& call, const HttpResult& result);
  void SendWaiting();
  absl::Duration Backoff(int tries);

  base::Executor& executor_;
  base::Rng rng_;
  const ApiConfig config_;
  const HttpApiClientOptions options_;
  const std::shared_ptr<ExecutorGate> gate_;
  const std::shared_ptr<Shared> shared_;

  std::function<bool()> may_send_;
  std::deque<std::unique_ptr<Call>> waiting_;
  int in_flight_ = 0;
  int cap_ = 0;
  int answers_since_raise_ = 0;
  uint64_t cap_epoch_ = 0;
  HttpApiClientStats stats_;
  base::Alive alive_;
};

}  // namespace asterism::kube
