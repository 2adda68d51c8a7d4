#include "kube/http_api_client.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "kube/api_error.h"
#include "kube/resource_path.h"
#include "kube/watch_frame.h"
#include "kube/watch_slot.h"
#include "nlohmann/json.hpp"

namespace asterism::kube {
namespace {

constexpr char kJsonType[] = "application/json";
constexpr char kAcceptProtobuf[] = "application/vnd.kubernetes.protobuf, application/json";
constexpr char kAcceptProtobufStream[] =
    "application/vnd.kubernetes.protobuf;stream=watch, application/json";
constexpr int kAnswersPerRaise = 16;

std::string ResourceName(const ResourceType& type) {
  return fmt::format("{}/{}", type.group, type.plural);
}

std::string Method(std::string_view verb) {
  return verb == "create"   ? "POST"
         : verb == "update" ? "PUT"
         : verb == "patch"  ? "PATCH"
         : verb == "delete" ? "DELETE"
                            : "GET";
}

const char* PatchContentType(PatchType type) {
  switch (type) {
    case PatchType::kApply:
      return "application/apply-patch+yaml";
    case PatchType::kMerge:
      return "application/merge-patch+json";
    case PatchType::kJson:
      return "application/json-patch+json";
  }
  return kJsonType;
}

std::string DeleteBody(const DeleteOptions& options) {
  nlohmann::json body = {{"kind", "DeleteOptions"}, {"apiVersion", "v1"}};
  if (!options.uid.empty()) {
    body["preconditions"] = {{"uid", options.uid}};
  }
  if (options.grace_period_seconds.has_value()) {
    body["gracePeriodSeconds"] = *options.grace_period_seconds;
  }
  if (!options.propagation.empty()) {
    body["propagationPolicy"] = options.propagation;
  }
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Reply ToReply(HttpResult result) {
  return Reply{result.code, std::move(result.content_type), std::move(result.body)};
}

// What a caller gets for an answer that is not retried.
absl::StatusOr<Reply> Outcome(HttpResult result, bool missing_is_done) {
  if (!result.error.ok()) {
    return std::move(result.error);
  }
  const std::optional<absl::Duration> retry_after = result.retry_after;
  Reply reply = ToReply(std::move(result));
  if (reply.code / 100 == 2 || (missing_is_done && reply.code == 404)) {
    return reply;
  }
  return ErrorFromReply(reply, retry_after);
}

bool IsProtobufRefused(const HttpRequest& request, const HttpResult& result) {
  return (result.code == 406 || result.code == 415) && request.accept != kJsonType;
}

}  // namespace

// Used by transport threads, and so kept alive by their callbacks.
class HttpApiClient::Shared {
 public:
  Shared(HttpClient& http, std::shared_ptr<CredentialSource> credentials)
      : http_(http), credentials_(std::move(credentials)) {}

  HttpClient& http() const { return http_; }
  CredentialSource& credentials() const { return *credentials_; }

  std::string Accept(const ResourceType& type, const char* protobuf) const {
    return HasProtobufDecoder(type) && !IsJsonOnly(ResourceName(type)) ? protobuf : kJsonType;
  }
  bool IsJsonOnly(std::string_view resource) const {
    absl::MutexLock lock(&mutex_);
    return json_only_.contains(resource);
  }
  void NoteJsonOnly(const std::string& resource) {
    absl::MutexLock lock(&mutex_);
    json_only_.insert(resource);
  }

  // True when the same request, changed a little, may succeed now.
  bool CanFix(HttpRequest& request, const std::string& resource, const HttpResult& result) {
    if (result.code == 401) {
      credentials_->Refuse(request.credentials);
      return true;
    }
    if (IsProtobufRefused(request, result)) {
      NoteJsonOnly(resource);
      request.accept = kJsonType;
      return true;
    }
    return false;
  }

 private:
  HttpClient& http_;
  const std::shared_ptr<CredentialSource> credentials_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_set<std::string, base::StringHash, base::StringEqual> json_only_
      ABSL_GUARDED_BY(mutex_);
};

namespace {

// From the bytes of a watch answer to events.
class WatchAdapter final : public HttpStreamHandler {
 public:
  WatchAdapter(std::function<void(const HttpResult&)> on_refused,
               std::shared_ptr<WatchHandler> handler)
      : on_refused_(std::move(on_refused)), handler_(std::move(handler)) {}

  void OnBytes(std::string_view content_type, std::string_view bytes) override {
    if (!broken_.ok()) {
      return;
    }
    if (!framer_.has_value()) {
      framer_.emplace(EncodingOf(content_type));
    }
    broken_ = framer_->Append(bytes, [&](WatchEventType type, const RawObject& object) {
      handler_->OnEvent(type, object);
    });
    handler_->OnBatchEnd();
  }

  void OnEnd(HttpResult result) override {
    if (!broken_.ok()) {
      handler_->OnEnd(broken_);
      return;
    }
    if (result.error.ok()) {
      on_refused_(result);
    }
    handler_->OnEnd(Outcome(std::move(result), false).status());
  }

 private:
  const std::function<void(const HttpResult&)> on_refused_;
  const std::shared_ptr<WatchHandler> handler_;
  std::optional<WatchFramer> framer_;
  absl::Status broken_;
};

}  // namespace

HttpApiClient::HttpApiClient(base::Executor& executor, base::Rng rng, HttpClient& http,
                             ApiConfig config, HttpApiClientOptions options)
    : executor_(executor),
      rng_(rng),
      config_(std::move(config)),
      options_(options),
      gate_(std::make_shared<ExecutorGate>(executor)),
      shared_(std::make_shared<Shared>(http, config_.credentials)),
      cap_(options.in_flight_max) {}

HttpApiClient::~HttpApiClient() {
  gate_->Close();
}

std::unique_ptr<HttpApiClient::Call> HttpApiClient::NewCall(const ResourceType& type,
                                                            std::string_view verb,
                                                            std::string target, Lane lane,
                                                            ReplyCallback done) const {
  auto call = std::make_unique<Call>();
  call->request.method = Method(verb);
  call->request.target = std::move(target);
  call->request.lane = lane;
  call->request.accept = shared_->Accept(type, kAcceptProtobuf);
  call->request.timeout = lane == Lane::kLease ? options_.lease_timeout : options_.write_timeout;
  call->resource = ResourceName(type);
  call->verb = verb;
  call->plural = type.plural;
  call->done = std::move(done);
  return call;
}

void HttpApiClient::Get(const ResourceType& type, ObjectName name, Lane lane, ReplyCallback done) {
  auto call = NewCall(type, "get", ObjectPath(type, name, ""), lane, std::move(done));
  call->read = true;
  Submit(std::move(call));
}

void HttpApiClient::GetPath(std::string path, ReplyCallback done) {
  auto call = std::make_unique<Call>();
  call->request.target = std::move(path);
  call->request.accept = kJsonType;
  call->request.timeout = options_.write_timeout;
  call->read = true;
  call->done = std::move(done);
  Submit(std::move(call));
}

void HttpApiClient::Create(const ResourceType& type, std::string namespace_name, std::string body,
                           CreateOptions options, Lane lane, ReplyCallback done) {
  std::string target = CollectionPath(type, namespace_name);
  if (options.dry_run) {
    target += "?dryRun=All";
  }
  auto call = NewCall(type, "create", std::move(target), lane, std::move(done));
  call->request.content_type = kJsonType;
  call->request.body = std::move(body);
  Submit(std::move(call));
}

void HttpApiClient::Update(const ResourceType& type, ObjectName name, std::string body, Lane lane,
                           ReplyCallback done) {
  auto call = NewCall(type, "update", ObjectPath(type, name, ""), lane, std::move(done));
  call->request.content_type = kJsonType;
  call->request.body = std::move(body);
  Submit(std::move(call));
}

void HttpApiClient::Patch(const ResourceType& type, ObjectName name, std::string body,
                          PatchOptions options, ReplyCallback done) {
  UrlQuery query;
  query.Add("fieldManager", options.field_manager);
  if (options.type == PatchType::kApply && options.force) {
    query.Add("force", "true");
  }
  auto call = NewCall(type, "patch", ObjectPath(type, name, options.subresource) + query.Text(),
                      Lane::kWrite, std::move(done));
  call->request.content_type = PatchContentType(options.type);
  call->request.body = std::move(body);
  Submit(std::move(call));
}

void HttpApiClient::Delete(const ResourceType& type, ObjectName name, DeleteOptions options,
                           ReplyCallback done) {
  auto call = NewCall(type, "delete", ObjectPath(type, name, ""), Lane::kWrite, std::move(done));
  call->request.content_type = kJsonType;
  call->request.body = DeleteBody(options);
  call->missing_is_done = true;
  Submit(std::move(call));
}

void HttpApiClient::List(const ResourceType& type, ListRequest request, ReplyCallback done) {
  UrlQuery query;
  query.Add("labelSelector", request.label_selector);
  query.Add("fieldSelector", request.field_selector);
  if (request.limit > 0) {
    query.Add("limit", fmt::to_string(request.limit));
  }
  query.Add("continue", request.continue_token);
  if (request.continue_token.empty()) {
    query.Add("resourceVersion", request.resource_version);
    query.Add("resourceVersionMatch", request.resource_version.empty() ? "" : "NotOlderThan");
  }
  HttpRequest http;
  http.target = CollectionPath(type, request.namespace_name) + query.Text();
  http.accept = shared_->Accept(type, kAcceptProtobuf);
  http.lane = Lane::kWatch;
  http.timeout = options_.list_timeout;
  SendList(std::move(http), ResourceName(type), /*second_try=*/false, std::move(done));
}

// Sent again at once after 401 and 406.
void HttpApiClient::SendList(HttpRequest request, std::string resource, bool second_try,
                             ReplyCallback done) {
  WithCredentials([this, request = std::move(request), resource = std::move(resource), second_try,
                   done = std::move(done)](absl::StatusOr<CredentialsPtr> credentials) mutable {
    if (!credentials.ok()) {
      done(credentials.status());
      return;
    }
    request.credentials = *std::move(credentials);
    HttpRequest copy = request;
    RequestMetrics* const metrics = options_.metrics;
    const base::SteadyTime sent = metrics == nullptr ? base::SteadyTime() : metrics->Now();
    auto again = alive_.Wrap([this](HttpRequest changed, std::string name, ReplyCallback callback) {
      SendList(std::move(changed), std::move(name), /*second_try=*/true, std::move(callback));
    });
    shared_->http().Send(
        std::move(copy), [gate = gate_, shared = shared_, request = std::move(request),
                          resource = std::move(resource), second_try, again = std::move(again),
                          metrics, sent, done = std::move(done)](HttpResult result) mutable {
          if (metrics != nullptr) {
            metrics->Count("list", std::string_view(resource).substr(resource.find('/') + 1),
                           result.code, sent);
          }
          if (second_try || !shared->CanFix(request, resource, result)) {
            done(Outcome(std::move(result), false));
            return;
          }
          gate->Post([again = std::move(again), request = std::move(request),
                      resource = std::move(resource), done = std::move(done)]() mutable {
            again(std::move(request), std::move(resource), std::move(done));
          });
        });
  });
}

std::unique_ptr<WatchStream> HttpApiClient::Watch(const ResourceType& type, WatchRequest request,
                                                  std::shared_ptr<WatchHandler> handler) {
  UrlQuery query;
  query.Add("watch", "true");
  query.Add("allowWatchBookmarks", "true");
  query.Add("timeoutSeconds", fmt::to_string(absl::ToInt64Seconds(request.timeout)));
  query.Add("labelSelector", request.label_selector);
  query.Add("fieldSelector", request.field_selector);
  query.Add("resourceVersion", request.resource_version);
  if (request.send_initial_events) {
    query.Add("sendInitialEvents", "true");
    query.Add("resourceVersionMatch", "NotOlderThan");
  }
  HttpRequest http;
  http.target = CollectionPath(type, request.namespace_name) + query.Text();
  http.accept = shared_->Accept(type, kAcceptProtobufStream);
  http.lane = Lane::kWatch;
  http.timeout = absl::InfiniteDuration();
  const auto slot = std::make_shared<WatchSlot>();
  WithCredentials([this, slot, http = std::move(http), resource = ResourceName(type),
                   handler =
                       std::move(handler)](absl::StatusOr<CredentialsPtr> credentials) mutable {
    if (!credentials.ok()) {
      executor_.Post([slot, handler, status = credentials.status()] {
        if (!slot->closed()) {
          handler->OnEnd(status);
        }
      });
      return;
    }
    http.credentials = *std::move(credentials);
    auto on_refused = [shared = shared_, resource, accept = http.accept,
                       used = http.credentials](const HttpResult& result) {
      HttpRequest sent;
      sent.accept = accept;
      sent.credentials = used;
      shared->CanFix(sent, resource, result);
    };
    slot->Open([&] {
      return shared_->http().Open(std::move(http), std::make_shared<WatchAdapter>(
                                                       std::move(on_refused), std::move(handler)));
    });
  });
  return std::make_unique<HttpWatchStream>(slot);
}

void HttpApiClient::Submit(std::unique_ptr<Call> call) {
  if (executor_.IsCurrent()) {
    Dispatch(std::move(call));
    return;
  }
  executor_.Post(
      alive_.Wrap([this, call = std::move(call)]() mutable { Dispatch(std::move(call)); }));
}

void HttpApiClient::Dispatch(std::unique_ptr<Call> call) {
  if (call->request.lane != Lane::kWrite || (in_flight_ < cap_ && waiting_.empty())) {
    SendNow(std::move(call));
    return;
  }
  if (waiting_.size() >= options_.waiting_max) {
    call->done(absl::ResourceExhaustedError(
        fmt::format("{} requests wait for the API server already", waiting_.size())));
    return;
  }
  waiting_.push_back(std::move(call));
}

// What waits in the source must not own the source: no Shared in there.
void HttpApiClient::WithCredentials(CredentialsCallback next) {
  shared_->credentials().Get([gate = gate_, next = alive_.Wrap(std::move(next))](
                                 absl::StatusOr<CredentialsPtr> credentials) mutable {
    gate->Run([next = std::move(next), credentials = std::move(credentials)]() mutable {
      next(std::move(credentials));
    });
  });
}

// What waits for credentials counts as in flight, so that no more of it waits there.
void HttpApiClient::SendNow(std::unique_ptr<Call> call) {
  if (call->request.lane == Lane::kWrite) {
    ++in_flight_;
  }
  WithCredentials(
      [this, call = std::move(call)](absl::StatusOr<CredentialsPtr> credentials) mutable {
        Transmit(std::move(call), std::move(credentials));
      });
}

void HttpApiClient::Transmit(std::unique_ptr<Call> call,
                             absl::StatusOr<CredentialsPtr> credentials) {
  if (!credentials.ok()) {
    EndUnsent(std::move(call), credentials.status());
    return;
  }
  const bool asks = call->request.lane == Lane::kWrite && !call->read && may_send_ != nullptr;
  if (asks && !may_send_()) {
    EndUnsent(std::move(call), absl::CancelledError("not sent: this process leads no more"));
    return;
  }
  call->request.credentials = *std::move(credentials);
  call->cap_epoch = cap_epoch_;
  ++call->tries;
  ++stats_.requests;
  if (options_.metrics != nullptr) {
    call->sent = options_.metrics->Now();
  }
  HttpRequest request = call->request;
  auto deliver = alive_.Wrap([this, call = std::move(call)](HttpResult result) mutable {
    OnResult(std::move(call), std::move(result));
  });
  shared_->http().Send(
      std::move(request), [gate = gate_, deliver = std::move(deliver)](HttpResult result) mutable {
        gate->Post([deliver = std::move(deliver), result = std::move(result)]() mutable {
          deliver(std::move(result));
        });
      });
}

void HttpApiClient::EndUnsent(std::unique_ptr<Call> call, absl::Status status) {
  if (call->request.lane == Lane::kWrite) {
    --in_flight_;
  }
  executor_.Post([call = std::move(call), status = std::move(status),
                  resume = alive_.Wrap([this] { SendWaiting(); })]() mutable {
    call->done(std::move(status));
    resume();
  });
}

void HttpApiClient::OnResult(std::unique_ptr<Call> call, HttpResult result) {
  if (options_.metrics != nullptr) {
    options_.metrics->Count(call->verb, call->plural, result.code, call->sent);
  }
  if (call->request.lane == Lane::kWrite) {
    --in_flight_;
    AdjustCap(*call, result);
  }
  if (!MaybeRetry(call, result)) {
    // The callback may call back into this, or end it.
    executor_.Post([call = std::move(call), result = std::move(result)]() mutable {
      call->done(Outcome(std::move(result), call->missing_is_done));
    });
  }
  SendWaiting();
}

bool HttpApiClient::MaybeRetry(std::unique_ptr<Call>& call, const HttpResult& result) {
  if (result.error.ok() && !call->refreshed &&
      shared_->CanFix(call->request, call->resource, result)) {
    call->refreshed = true;
    SendLater(std::move(call), absl::ZeroDuration());
    return true;
  }
  if (call->request.lane == Lane::kLease || absl::IsCancelled(result.error)) {
    return false;
  }
  const bool throttled = result.code == 429 || result.code == 503;
  const bool certain = throttled || (!result.error.ok() && !result.maybe_sent);
  const bool uncertain = !result.error.ok() || result.code == 500 || result.code == 504;
  const int tries_max = certain                   ? options_.tries_max
                        : uncertain && call->read ? options_.read_tries_max
                                                  : 0;
  if (call->tries >= tries_max) {
    return false;
  }
  absl::Duration delay = Backoff(call->tries);
  if (throttled && result.retry_after.has_value()) {
    delay += *result.retry_after;
  }
  SendLater(std::move(call), delay);
  return true;
}

absl::Duration HttpApiClient::Backoff(int tries) {
  const absl::Duration delay =
      std::min(options_.retry_first * (1 << std::min(tries - 1, 16)), options_.retry_max);
  return delay * (1 + rng_.Uniform());
}

void HttpApiClient::SendLater(std::unique_ptr<Call> call, absl::Duration delay) {
  ++stats_.retries;
  executor_.PostAfter(
      delay, alive_.Wrap([this, call = std::move(call)]() mutable { Dispatch(std::move(call)); }));
}

void HttpApiClient::AdjustCap(const Call& call, const HttpResult& result) {
  if (result.code == 429) {
    ++stats_.throttled;
    answers_since_raise_ = 0;
    // Answers to what was sent before the last cut say nothing about the new cap.
    if (call.cap_epoch == cap_epoch_) {
      ++cap_epoch_;
      cap_ = std::max(1, cap_ / 2);
      base::LogWarning("api_server_throttles", {{"in_flight_cap", cap_}});
    }
    return;
  }
  if (cap_ < options_.in_flight_max && ++answers_since_raise_ >= kAnswersPerRaise) {
    answers_since_raise_ = 0;
    ++cap_;
  }
}

void HttpApiClient::SendWaiting() {
  while (!waiting_.empty() && in_flight_ < cap_) {
    std::unique_ptr<Call> call = std::move(waiting_.front());
    waiting_.pop_front();
    SendNow(std::move(call));
  }
}

HttpApiClientStats HttpApiClient::stats() const {
  HttpApiClientStats stats = stats_;
  stats.in_flight = in_flight_;
  stats.in_flight_cap = cap_;
  stats.waiting = waiting_.size();
  return stats;
}

}  // namespace asterism::kube
