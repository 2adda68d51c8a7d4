// File: test/controller/fake_reviews.h
//
// Users, their tokens and their rights, as the fake API server tells them in TokenReviews and
// SubjectAccessReviews.
//
//   FakeReviews reviews(server);
//   reviews.AddUser("token-of-ada", "ada", {"team-a"});
//   reviews.Allow("ada", "create trainingjobs research");
//   reviews.Allow("ada", "get clustertopologies *");      // in the whole cluster
//
// Thread-safety: that of the server. Cost: none to speak of.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kube/testing/fake_api_server.h"

namespace asterism::controller {

class FakeReviews {
 public:
  explicit FakeReviews(kube::testing::FakeApiServer& server);

  void AddUser(const std::string& token, const std::string& name,
               std::vector<std::string> groups = {});
  // As of a ServiceAccount's pod on a node.
  void AddNodeUser(const std::string& token, const std::string& name, const std::string& node);
  void RemoveToken(const std::string& token) { users_.erase(token); }
  void Allow(const std::string& user, const std::string& right) { rights_[user].insert(right); }
  void Forbid(const std::string& user, const std::string& right) { rights_[user].erase(right); }

  int token_reviews() const;
  int access_reviews() const;
  // Attributes of the last SubjectAccessReview.
  const nlohmann::json& last_access() const { return *last_access_; }

 private:
  struct User {
    std::string name;
    std::vector<std::string> groups;
    std::string node;
  };

  void AnswerToken(nlohmann::json& review) const;
  void AnswerAccess(nlohmann::json& review);

  kube::testing::FakeApiServer& server_;
  std::map<std::string, User> users_;  // by token
  std::map<std::string, std::set<std::string>> rights_;
  std::shared_ptr<nlohmann::json> last_access_;
};

}  // namespace asterism::controller
