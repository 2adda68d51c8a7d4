#include "fake_reviews.h"

#include <memory>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace asterism::controller {

using nlohmann::json;

FakeReviews::FakeReviews(kube::testing::FakeApiServer& server)
    : server_(server), last_access_(std::make_shared<json>()) {
  server.SetReview("tokenreviews", [this](json& review) { AnswerToken(review); });
  server.SetReview("subjectaccessreviews", [this](json& review) { AnswerAccess(review); });
}

void FakeReviews::AddUser(const std::string& token, const std::string& name,
                          std::vector<std::string> groups) {
  users_[token] = {name, std::move(groups)};
}

void FakeReviews::AddNodeUser(const std::string& token, const std::string& name,
                              const std::string& node) {
  users_[token] = {.name = name, .node = node};
}

int FakeReviews::token_reviews() const {
  const auto found = server_.requests().find("create tokenreviews");
  return found == server_.requests().end() ? 0 : found->second;
}

int FakeReviews::access_reviews() const {
  const auto found = server_.requests().find("create subjectaccessreviews");
  return found == server_.requests().end() ? 0 : found->second;
}

void FakeReviews::AnswerToken(json& review) const {
  const auto user = users_.find(review["spec"].value("token", ""));
  json& status = review["status"];
  if (user == users_.end()) {
    status = {{"authenticated", false}, {"error", "[invalid bearer token]"}};
    return;
  }
  status = {{"authenticated", true},
            {"user",
             {{"username", user->second.name},
              {"uid", "uid-of-" + user->second.name},
              {"groups", user->second.groups},
              {"extra", {{"example.org/scope", json::array({"all"})}}}}}};
  if (!user->second.node.empty()) {
    status["user"]["extra"]["authentication.kubernetes.io/node-name"] =
        json::array({user->second.node});
  }
}

void FakeReviews::AnswerAccess(json& review) {
  *last_access_ = review["spec"];
  const json& attributes = last_access_->at("resourceAttributes");
  const std::string space = attributes.value("namespace", "");
  const std::string what =
      fmt::format("{} {}", attributes.value("verb", ""), attributes.value("resource", ""));
  const std::set<std::string>& rights = rights_[last_access_->value("user", "")];
  // Core kinds are those that only Kubernetes has.
  const std::string group = attributes.value("resource", "") == "configmaps" ? "" : "asterism.dev";
  const bool allowed = attributes.value("group", "") == group &&
                       (rights.contains(what + " *") ||
                        (!space.empty() && rights.contains(fmt::format("{} {}", what, space))));
  review["status"] = {{"allowed", allowed}};
}

}  // namespace asterism::controller
