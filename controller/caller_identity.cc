#include "controller/caller_identity.h"

#include <openssl/evp.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "controller/certificate_plan.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace asterism::controller {
namespace {

using nlohmann::json;

constexpr kube::ResourceType kTokenReviews{"authentication.k8s.io", "v1",
                                           "tokenreviews",          "TokenReview",
                                           /*namespaced=*/false,    /*protobuf=*/false};
constexpr size_t kTokenBytesMax = 16 << 10;

std::string Sha256(std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr);
  return std::string(reinterpret_cast<const char*>(digest), size);
}

std::string TextOf(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::vector<std::string> TextsOf(const json& list) {
  std::vector<std::string> texts;
  if (list.is_array()) {
    for (const json& text : list) {
      if (text.is_string()) {
        texts.push_back(text.get<std::string>());
      }
    }
  }
  return texts;
}

std::shared_ptr<const Caller> CallerOf(const json& user) {
  auto caller = std::make_shared<Caller>();
  caller->user = TextOf(user, "username");
  caller->uid = TextOf(user, "uid");
  if (const auto groups = user.find("groups"); groups != user.end()) {
    caller->groups = TextsOf(*groups);
  }
  if (const auto extra = user.find("extra"); extra != user.end() && extra->is_object()) {
    for (const auto& [key, values] : extra->items()) {
      caller->extra[key] = TextsOf(values);
    }
  }
  std::vector<std::string> groups = caller->groups;
  std::sort(groups.begin(), groups.end());
  const json whole = {caller->user, caller->uid, groups, caller->extra};
  caller->key = Sha256(whole.dump(-1, ' ', false, json::error_handler_t::replace));
  return caller;
}

}  // namespace

CallerIdentity::CallerIdentity(const base::Clock& clock, kube::Client& client,
                               CallerIdentityOptions options)
    : client_(client),
      cache_(clock, options.reviews),
      new_tokens_(clock, options.new_tokens_at_once, options.new_token_period) {}

void CallerIdentity::Identify(const Credentials& credentials, Done done) {
  // This one name: a site may sign more with the same authority, and agents run on nodes, which are
  // trusted less: their certificate opens nothing here.
  if (credentials.certificate_name == kSchedulerName) {
    auto caller = std::make_shared<Caller>();
    caller->component = true;
    caller->user = credentials.certificate_name;
    caller->key = caller->user;  // those of users are digests
    done(SharedCaller(std::move(caller)));
    return;
  }
  const std::string& token = credentials.bearer_token;
  if (token.empty()) {
    done(absl::UnauthenticatedError(
        "the call has no identity: send the metadata `authorization: Bearer TOKEN`, for example of "
        "`kubectl create token`"));
    return;
  }
  if (token.size() > kTokenBytesMax) {
    done(
        absl::UnauthenticatedError(fmt::format("authorization: the token has {} bytes: send one "
                                               "of at most {}",
                                               token.size(), kTokenBytesMax)));
    return;
  }
  cache_.Get(
      Sha256(token), [&](ReviewCache<Verdict>::Done answer) { Review(token, std::move(answer)); },
      [done = std::move(done)](const absl::StatusOr<Verdict>& verdict) mutable {
        if (!verdict.ok()) {
          done(verdict.status());
        } else if (verdict->caller == nullptr) {
          done(absl::UnauthenticatedError(
              fmt::format("authorization: the API server does not know this token{}{}: get a new "
                          "one, for example with `kubectl create token`",
                          verdict->why.empty() ? "" : ": ", verdict->why)));
        } else {
          done(verdict->caller);
        }
      });
}

void CallerIdentity::Review(const std::string& token, ReviewCache<Verdict>::Done done) {
  if (!new_tokens_.Take()) {
    done(absl::ResourceExhaustedError("too many new tokens come at this moment: call again later"));
    return;
  }
  const json body = {{"apiVersion", "authentication.k8s.io/v1"},
                     {"kind", "TokenReview"},
                     {"spec", {{"token", token}}}};
  // The lane of the watches: on that of the writes it would wait behind the pods of a gang.
  client_.Create(kTokenReviews, "", body.dump(-1, ' ', false, json::error_handler_t::replace), {},
                 kube::Lane::kWatch,
                 [done = std::move(done)](const absl::StatusOr<kube::Reply>& reply) mutable {
                   done(ReadVerdict(reply));
                 });
}

absl::StatusOr<CallerIdentity::Verdict> CallerIdentity::ReadVerdict(
    const absl::StatusOr<kube::Reply>& reply) {
  if (!reply.ok()) {
    // Its words may hold what was sent.
    base::LogWarning("token_review_failed",
                     {{"code", absl::StatusCodeToString(reply.status().code())},
                      {"remedy",
                       "the ClusterRole asterism-controller needs `create tokenreviews`, "
                       "and the API server must answer"}});
    return absl::UnavailableError(
        "the API server did not answer who the caller is (TokenReview): call again");
  }
  const json object = json::parse(reply->body, nullptr, /*allow_exceptions=*/false);
  const auto status = object.is_object() ? object.find("status") : object.end();
  if (!object.is_object() || status == object.end() || !status->is_object()) {
    return absl::UnavailableError("the API server sent a TokenReview without a status: call again");
  }
  Verdict verdict;
  verdict.why = TextOf(*status, "error").substr(0, 256);
  const auto authenticated = status->find("authenticated");
  const auto user = status->find("user");
  if (authenticated == status->end() || *authenticated != true || user == status->end() ||
      TextOf(*user, "username").empty()) {
    return verdict;
  }
  verdict.caller = CallerOf(*user);
  return verdict;
}

}  // namespace asterism::controller
