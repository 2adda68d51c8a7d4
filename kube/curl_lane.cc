#include "kube/curl_lane.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/check.h"
#include "fmt/format.h"

namespace asterism::kube {
namespace {

constexpr int kIdlePollMs = 1000;
constexpr size_t kMaxBody = size_t{512} << 20;
constexpr size_t kMaxErrorBody = size_t{1} << 20;  // a 422 may list hundreds of causes
constexpr size_t kMaxSpareHandles = 512;
constexpr long kMaxStreams = 100;  // what kube-apiserver allows on one connection

const char* ThreadName(Lane lane) {
  switch (lane) {
    case Lane::kWatch:
      return "kube-watch";
    case Lane::kWrite:
      return "kube-write";
    case Lane::kLease:
      return "kube-lease";
  }
  return "kube";
}

std::string WithoutParameters(const char* content_type) {
  if (content_type == nullptr) {
    return "";
  }
  const std::string_view text(content_type);
  return std::string(text.substr(0, text.find(';')));
}

// Fills in what the headers say, once they are here.
void ReadHead(CurlTransfer& transfer) {
  HttpResult& result = transfer.result;
  if (result.code != 0) {
    return;
  }
  long code = 0;
  curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &code);
  result.code = static_cast<int>(code);
  const char* content_type = nullptr;
  curl_easy_getinfo(transfer.easy, CURLINFO_CONTENT_TYPE, &content_type);
  result.content_type = WithoutParameters(content_type);
  curl_header* retry_after = nullptr;
  int64_t seconds = 0;
  if (curl_easy_header(transfer.easy, "Retry-After", 0, CURLH_HEADER, -1, &retry_after) ==
          CURLHE_OK &&
      absl::SimpleAtoi(retry_after->value, &seconds) && seconds >= 0) {
    result.retry_after = absl::Seconds(std::min<int64_t>(seconds, 3600));
  }
}

size_t OnBodyBytes(char* data, size_t size, size_t count, void* user) {
  CurlTransfer& transfer = *static_cast<CurlTransfer*>(user);
  const size_t bytes = size * count;
  ReadHead(transfer);
  const bool success = transfer.result.code / 100 == 2;
  if (transfer.handler != nullptr && success) {
    transfer.handler->OnBytes(transfer.result.content_type, std::string_view(data, bytes));
    return bytes;
  }
  std::string& body = transfer.result.body;
  const size_t limit = success ? kMaxBody : kMaxErrorBody;
  if (success && body.size() + bytes > limit) {
    return 0;  // ends the transfer with CURLE_WRITE_ERROR
  }
  body.append(data, std::min(bytes, limit - std::min(limit, body.size())));
  return bytes;
}

int OnSocket(void* user, curl_socket_t socket, curlsocktype /*purpose*/) {
  const auto* options = static_cast<const CurlOptions*>(user);
  const auto timeout_ms =
      static_cast<unsigned>(absl::ToInt64Milliseconds(options->unacknowledged_timeout));
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
  return CURL_SOCKOPT_OK;
}

curl_blob Blob(const std::string& text) {
  return curl_blob{const_cast<char*>(text.data()), text.size(), CURL_BLOB_COPY};
}

long Milliseconds(absl::Duration duration) {
  return static_cast<long>(absl::ToInt64Milliseconds(duration));
}

// Codes at which the server has not taken the request. CURLE_HTTP2 (not CURLE_HTTP2_STREAM): a
// GOAWAY has arrived before our stream was opened, and the session has nothing left to do
// (should_close_session in curl's http2.c).
bool NeverSent(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_URL_MALFORMAT:
    case CURLE_HTTP2:
      return true;
    default:
      return false;
  }
}

absl::Status TransferError(const CurlTransfer& transfer, CURLcode code) {
  const std::string message = fmt::format("{} {}: {}", transfer.request.method,
                                          transfer.request.target, curl_easy_strerror(code));
  return code == CURLE_OPERATION_TIMEDOUT ? absl::DeadlineExceededError(message)
                                          : absl::UnavailableError(message);
}

}  // namespace

CurlLane::CurlLane(const CurlOptions& options, Lane lane, int connections)
    : options_(options), lane_(lane), multi_(curl_multi_init()) {
  CHECK_THAT(multi_ != nullptr, "curl_multi_init failed");
  const size_t host_begin = options_.server.find("://") + 3;
  const size_t host_end = std::min(options_.server.find('/', host_begin), options_.server.size());
  host_and_port_ = options_.server.substr(host_begin, host_end - host_begin);
  url_prefix_ = options_.server;
  if (!options_.tls_server_name.empty()) {
    url_prefix_ = options_.server.substr(0, host_begin) + options_.tls_server_name +
                  options_.server.substr(host_end);
  }
  curl_multi_setopt(multi_, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
  curl_multi_setopt(multi_, CURLMOPT_MAX_HOST_CONNECTIONS, static_cast<long>(connections));
  curl_multi_setopt(multi_, CURLMOPT_MAX_CONCURRENT_STREAMS, kMaxStreams);
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), ThreadName(lane));
}

CurlLane::~CurlLane() {
  Stop();
  for (CURL* easy : spare_handles_) {
    curl_easy_cleanup(easy);
  }
  curl_multi_cleanup(multi_);
}

TransferId CurlLane::Start(std::unique_ptr<CurlTransfer> transfer) {
  TransferId id = 0;
  bool wake = false;
  {
    absl::MutexLock lock(&mutex_);
    id = transfer->id = ++last_id_;
    if (!stopping_) {
      // One wake-up is enough for a whole burst.
      wake = added_.empty();
      added_.push_back(std::move(transfer));
    }
  }
  if (transfer != nullptr) {  // too late
    transfer->result.error = absl::CancelledError("the HTTP client is being destroyed");
    transfer->result.maybe_sent = false;
    if (transfer->done) {
      transfer->done(std::move(transfer->result));
    }
  } else if (wake) {
    curl_multi_wakeup(multi_);
  }
  return id;
}

void CurlLane::Cancel(TransferId id) {
  {
    absl::MutexLock lock(&mutex_);
    cancelled_.push_back(id);
  }
  curl_multi_wakeup(multi_);
}

void CurlLane::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  curl_multi_wakeup(multi_);
  if (thread_.joinable()) {
    thread_.join();
  }
}

// Not curl_multi_socket_action, which would look only at the connection that has something: with
// curl 7.88 it loses answers that come before the request is sent to its end, as 429s do.
void CurlLane::Run() {
  while (TakeCommands()) {
    int still_running = 0;
    curl_multi_perform(multi_, &still_running);
    ReapFinished();
    curl_multi_poll(multi_, nullptr, 0, kIdlePollMs, nullptr);
  }
  AbortAll();
}

bool CurlLane::TakeCommands() {
  std::vector<std::unique_ptr<CurlTransfer>> added;
  std::vector<TransferId> cancelled;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) {
      return false;
    }
    added.swap(added_);
    cancelled.swap(cancelled_);
  }
  for (std::unique_ptr<CurlTransfer>& transfer : added) {
    Launch(std::move(transfer));
  }
  for (const TransferId id : cancelled) {
    Detach(id);
  }
  return true;
}

void CurlLane::Launch(std::unique_ptr<CurlTransfer> transfer) {
  if (spare_handles_.empty()) {
    transfer->easy = curl_easy_init();
    CHECK_THAT(transfer->easy != nullptr, "curl_easy_init failed");
  } else {
    transfer->easy = spare_handles_.back();
    spare_handles_.pop_back();
  }
  SetOptions(*transfer);
  curl_multi_add_handle(multi_, transfer->easy);
  running_.emplace(transfer->id, std::move(transfer));
}

void CurlLane::SetOptions(CurlTransfer& transfer) {
  CURL* const easy = transfer.easy;
  const HttpRequest& request = transfer.request;
  curl_easy_setopt(easy, CURLOPT_URL, (url_prefix_ + request.target).c_str());
  curl_easy_setopt(easy, CURLOPT_PRIVATE, &transfer);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
  curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, OnBodyBytes);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, OnSocket);
  curl_easy_setopt(easy, CURLOPT_SOCKOPTDATA, &options_);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 15L);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 5L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, Milliseconds(options_.connect_timeout));
  curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN,
                   static_cast<long>(absl::ToInt64Seconds(options_.idle_connection_age)));
  if (request.timeout != absl::InfiniteDuration()) {
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, Milliseconds(request.timeout));
  }
  if (transfer.handler != nullptr) {
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME,
                     static_cast<long>(absl::ToInt64Seconds(options_.silent_watch_timeout)));
  }
  if (lane_ != Lane::kLease) {
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 128L << 10);
  }
  if (!request.content_type.empty()) {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.data());
  }
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  SetTls(easy, request.credentials.get());
  SetHeaders(transfer);
}

void CurlLane::SetTls(CURL* easy, const Credentials* credentials) {
  const std::string& ca = credentials != nullptr && !credentials->ca_pem.empty()
                              ? credentials->ca_pem
                              : options_.ca_pem;
  if (options_.insecure_skip_tls_verify) {
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
  } else if (!ca.empty()) {
    const curl_blob blob = Blob(ca);
    curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &blob);
  }
  if (credentials != nullptr && !credentials->client_key_pem.empty()) {
    const curl_blob certificate = Blob(credentials->client_certificate_pem);
    const curl_blob key = Blob(credentials->client_key_pem);
    curl_easy_setopt(easy, CURLOPT_SSLCERTTYPE, "PEM");
    curl_easy_setopt(easy, CURLOPT_SSLCERT_BLOB, &certificate);
    curl_easy_setopt(easy, CURLOPT_SSLKEYTYPE, "PEM");
    curl_easy_setopt(easy, CURLOPT_SSLKEY_BLOB, &key);
  }
}

void CurlLane::SetHeaders(CurlTransfer& transfer) {
  const HttpRequest& request = transfer.request;
  const auto add = [&](const std::string& line) {
    transfer.headers = curl_slist_append(transfer.headers, line.c_str());
  };
  if (!request.accept.empty()) {
    add("Accept: " + request.accept);
  }
  if (!request.content_type.empty()) {
    add("Content-Type: " + request.content_type);
    add("Expect:");
  }
  if (request.credentials != nullptr && !request.credentials->bearer_token.empty()) {
    add("Authorization: Bearer " + request.credentials->bearer_token);
  }
  curl_easy_setopt(transfer.easy, CURLOPT_HTTPHEADER, transfer.headers);
  curl_easy_setopt(transfer.easy, CURLOPT_USERAGENT, options_.user_agent.c_str());
  if (!options_.tls_server_name.empty()) {
    transfer.connect_to = curl_slist_append(nullptr, ("::" + host_and_port_).c_str());
    curl_easy_setopt(transfer.easy, CURLOPT_CONNECT_TO, transfer.connect_to);
  }
}

void CurlLane::ReapFinished() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) {
      continue;
    }
    const CURLcode code = message->data.result;
    CurlTransfer* transfer = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
    Finish(*transfer, code);
  }
}

void CurlLane::Finish(CurlTransfer& transfer, CURLcode code) {
  ReadHead(transfer);
  long request_bytes = 0;
  curl_easy_getinfo(transfer.easy, CURLINFO_REQUEST_SIZE, &request_bytes);
  HttpResult& result = transfer.result;
  if (code != CURLE_OK) {
    result.error = TransferError(transfer, code);
    result.maybe_sent = result.code != 0 || (!NeverSent(code) && request_bytes > 0);
  } else if (result.code == 0) {
    result.error = absl::UnavailableError("the server answered without a status");
  }
  const std::unique_ptr<CurlTransfer> owned = Detach(transfer.id);
  if (owned->handler != nullptr) {
    owned->handler->OnEnd(std::move(owned->result));
  } else {
    owned->done(std::move(owned->result));
  }
}

std::unique_ptr<CurlTransfer> CurlLane::Detach(TransferId id) {
  const auto found = running_.find(id);
  if (found == running_.end()) {
    return nullptr;
  }
  std::unique_ptr<CurlTransfer> transfer = std::move(found->second);
  running_.erase(found);
  curl_multi_remove_handle(multi_, transfer->easy);
  if (spare_handles_.size() < kMaxSpareHandles) {
    curl_easy_reset(transfer->easy);
    spare_handles_.push_back(transfer->easy);
  } else {
    curl_easy_cleanup(transfer->easy);
  }
  curl_slist_free_all(transfer->headers);
  curl_slist_free_all(transfer->connect_to);
  transfer->easy = nullptr;
  return transfer;
}

void CurlLane::AbortAll() {
  std::vector<std::unique_ptr<CurlTransfer>> never_started;
  {
    absl::MutexLock lock(&mutex_);
    never_started.swap(added_);
  }
  while (!running_.empty()) {
    std::unique_ptr<CurlTransfer> transfer = Detach(running_.begin()->first);
    never_started.push_back(std::move(transfer));
  }
  for (const std::unique_ptr<CurlTransfer>& transfer : never_started) {
    transfer->result.error = absl::CancelledError("the HTTP client is being destroyed");
    if (transfer->done) {
      transfer->done(std::move(transfer->result));
    }
  }
}

}  // namespace asterism::kube
