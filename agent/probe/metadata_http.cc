#include "agent/probe/metadata_http.h"

#include <curl/curl.h>

#include <memory>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace asterism::agent {
namespace {

struct MetadataBody {
  std::string text;
  size_t bytes_max = 0;
};

size_t TakeMetadata(char* bytes, size_t size, size_t count, void* user) {
  auto& body = *static_cast<MetadataBody*>(user);
  if (body.text.size() + size * count > body.bytes_max) {
    return 0;  // ends the transfer
  }
  body.text.append(bytes, size * count);
  return size * count;
}

}  // namespace

absl::StatusOr<std::string> AskMetadata(const MetadataRequest& request) {
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
  if (curl == nullptr) {
    return absl::InternalError("libcurl does not start");
  }
  curl_slist* list = nullptr;
  for (const std::string& header : request.headers) {
    list = curl_slist_append(list, header.c_str());
  }
  const std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(list, curl_slist_free_all);
  MetadataBody body{.bytes_max = request.bytes_max};
  curl_easy_setopt(curl.get(), CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http");
  curl_easy_setopt(curl.get(), CURLOPT_PROXY, "");
  curl_easy_setopt(curl.get(), CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT_MS,
                   static_cast<long>(absl::ToInt64Milliseconds(request.timeout)));
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, TakeMetadata);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &body);
  if (request.put) {
    curl_easy_setopt(curl.get(), CURLOPT_CUSTOMREQUEST, "PUT");
  }
  const CURLcode code = curl_easy_perform(curl.get());
  if (code != CURLE_OK) {
    return absl::UnavailableError(fmt::format(
        "{}: {}", request.url,
        code == CURLE_WRITE_ERROR ? "the answer is too large" : curl_easy_strerror(code)));
  }
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status == 404) {
    return absl::NotFoundError(fmt::format("{}: not there", request.url));
  }
  if (status != 200) {
    return absl::UnavailableError(fmt::format("{}: answers {}", request.url, status));
  }
  return body.text;
}

}  // namespace asterism::agent
