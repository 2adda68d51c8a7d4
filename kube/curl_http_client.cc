#include "kube/curl_http_client.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "kube/curl_lane.h"

namespace asterism::kube {
namespace {

class CurlStream final : public HttpStream {
 public:
  CurlStream(std::weak_ptr<CurlLane> lane, TransferId id) : lane_(std::move(lane)), id_(id) {}
  ~CurlStream() override {
    // The client may be gone already, and its streams with it.
    if (const std::shared_ptr<CurlLane> lane = lane_.lock()) {
      lane->Cancel(id_);
    }
  }
  CurlStream(const CurlStream&) = delete;
  CurlStream& operator=(const CurlStream&) = delete;

 private:
  const std::weak_ptr<CurlLane> lane_;
  const TransferId id_;
};

}  // namespace

CurlOptions CurlOptions::From(const ApiConfig& config) {
  CurlOptions options;
  options.server = config.server;
  options.ca_pem = config.ca_pem;
  options.tls_server_name = config.tls_server_name;
  options.insecure_skip_tls_verify = config.insecure_skip_tls_verify;
  return options;
}

CurlHttpClient::CurlHttpClient(CurlOptions options) {
  static std::once_flag initialised;
  std::call_once(initialised, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  const auto add = [&](Lane lane, int connections) {
    lanes_[static_cast<size_t>(lane)].push_back(
        std::make_shared<CurlLane>(options, lane, connections));
  };
  add(Lane::kWatch, options.watch_connections);
  add(Lane::kLease, 1);
  for (int i = 0; i < std::max(1, options.write_connections); ++i) {
    add(Lane::kWrite, 1);
  }
}

CurlHttpClient::~CurlHttpClient() {
  for (const auto& handles : lanes_) {
    for (const std::shared_ptr<CurlLane>& lane : handles) {
      lane->Stop();
    }
  }
}

const std::shared_ptr<CurlLane>& CurlHttpClient::LaneFor(Lane lane) {
  const auto& handles = lanes_[static_cast<size_t>(lane)];
  return handles[turn_.fetch_add(1, std::memory_order_relaxed) % handles.size()];
}

void CurlHttpClient::Send(HttpRequest request, HttpCallback done) {
  auto transfer = std::make_unique<CurlTransfer>();
  CurlLane& lane = *LaneFor(request.lane);
  transfer->request = std::move(request);
  transfer->done = std::move(done);
  lane.Start(std::move(transfer));
}

std::unique_ptr<HttpStream> CurlHttpClient::Open(HttpRequest request,
                                                 std::shared_ptr<HttpStreamHandler> handler) {
  auto transfer = std::make_unique<CurlTransfer>();
  const std::shared_ptr<CurlLane>& lane = LaneFor(request.lane);
  transfer->request = std::move(request);
  transfer->handler = std::move(handler);
  const TransferId id = lane->Start(std::move(transfer));
  return std::make_unique<CurlStream>(lane, id);
}

}  // namespace asterism::kube
