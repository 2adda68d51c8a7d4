#include "controller/certificate_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "server/certificate_authority.h"
#include "test/server/brought_authorities.h"

namespace asterism::controller {
namespace {

using server::CertificateAndKey;
using server::CertificateUse;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);
constexpr absl::Duration kDay = absl::Hours(24);

class CertificatePlanTest : public ::testing::Test {
 protected:
  // What the plan says, carried out. Returns the Secrets written.
  std::vector<std::string> Apply(absl::Time now, const CertificateAndKey& remembered = {}) {
    const auto plan = PlanCertificates(found_, remembered, rules_, now);
    EXPECT_TRUE(plan.ok()) << plan.status();
    std::vector<std::string> written;
    reasons_.clear();
    if (!plan.ok()) {
      return written;
    }
    for (const SecretWrite& write : plan->writes) {
      Of(write.secret) = write.data;
      written.emplace_back(write.secret);
      reasons_.push_back(write.reason);
    }
    authority_ = plan->authority;
    return written;
  }
  SecretData& Of(std::string_view name) {
    return name == kAuthoritySecret ? found_.authority
           : name == kServerSecret  ? found_.server
           : name == kAgentSecret   ? found_.agent
                                    : found_.scheduler;
  }
  // All three fit together for somebody who trusts `trusted`.
  testing::AssertionResult Good(absl::Time now, const std::string& trusted) {
    for (const auto& [secret, use] : {std::pair(&found_.server, CertificateUse::kServer),
                                      std::pair(&found_.scheduler, CertificateUse::kClient)}) {
      const absl::Status status = server::CheckCertificate(
          {secret->at("tls.crt"), secret->at("tls.key")}, trusted, use, now);
      if (!status.ok()) {
        return testing::AssertionFailure() << status;
      }
    }
    return testing::AssertionSuccess();
  }

  CertificateRules rules_{.server_names = {"asterism-extender", "asterism-extender.ns.svc"}};
  CertificateSecrets found_;
  CertificateAndKey authority_;
  std::vector<std::string> reasons_;
};

TEST_F(CertificatePlanTest, MakesAllThreeAndThenNothing) {
  EXPECT_THAT(Apply(kNow), ElementsAre(kAuthoritySecret, kServerSecret, kSchedulerSecret));
  EXPECT_TRUE(Good(kNow, found_.authority["tls.crt"]));
  EXPECT_EQ(found_.server["ca.crt"], found_.authority["tls.crt"]);
  EXPECT_THAT(Apply(kNow), ElementsAre());
  EXPECT_THAT(Apply(kNow + absl::Hours(1)), ElementsAre());
  EXPECT_TRUE(MaterialOf(found_.server, kNow).ok());
}

// Agents show it to the controller, and as relays to each other.
TEST_F(CertificatePlanTest, ThatOfTheAgentsIsForBothEndsAndOneThatIsNotIsMadeAnew) {
  rules_.agents = true;
  Apply(kNow);
  const auto agent = [this] {
    return CertificateAndKey{found_.agent["tls.crt"], found_.agent["tls.key"]};
  };
  EXPECT_TRUE(server::CheckCertificate(agent(), found_.authority["tls.crt"],
                                       CertificateUse::kServerAndClient, kNow)
                  .ok());
  EXPECT_THAT(server::ReadCertificate(agent().certificate)->dns_names, ElementsAre(kAgentName));
  const auto former =
      server::IssueCertificate(authority_, {.common_name = kAgentName,
                                            .use = CertificateUse::kClient,
                                            .validity = {kNow - absl::Hours(1), kNow + kDay}});
  ASSERT_TRUE(former.ok());
  found_.agent["tls.crt"] = former->certificate;
  found_.agent["tls.key"] = former->key;
  EXPECT_THAT(Apply(kNow), ElementsAre(kAgentSecret));
}

TEST_F(CertificatePlanTest, LeavesAreRenewedAtTwoThirdsOfTheirLife) {
  Apply(kNow);
  const std::string trusted = found_.authority["tls.crt"];
  // Backdated by a day: 91 days of life.
  const absl::Duration due = 91 * kDay * 2 / 3 - kDay;
  EXPECT_THAT(Apply(kNow + due - absl::Minutes(1)), ElementsAre());
  EXPECT_THAT(Apply(kNow + due + absl::Minutes(1)), ElementsAre(kServerSecret, kSchedulerSecret));
  EXPECT_THAT(reasons_.front(), HasSubstr("two thirds"));
  EXPECT_TRUE(Good(kNow + 120 * kDay, trusted));
}

TEST_F(CertificatePlanTest, WhoTrustsTheOldAuthorityTrustsTheRenewedOne) {
  Apply(kNow);
  const std::string trusted = found_.authority["tls.crt"];
  const absl::Time due = kNow + 3651 * kDay * 2 / 3;
  EXPECT_THAT(Apply(due), ElementsAre(kAuthoritySecret, kServerSecret, kSchedulerSecret));
  EXPECT_NE(found_.authority["tls.crt"], trusted);
  EXPECT_TRUE(Good(due, trusted));
  EXPECT_TRUE(Good(due, found_.authority["tls.crt"]));
  EXPECT_THAT(Apply(due), ElementsAre());
}

TEST_F(CertificatePlanTest, AClockFarOffKeepsTheAuthoritysKey) {
  Apply(kNow);
  const std::string key = found_.authority["tls.key"];
  Apply(kNow + 20 * 365 * kDay);
  EXPECT_EQ(found_.authority["tls.key"], key);
  Apply(kNow - 20 * 365 * kDay);
  EXPECT_EQ(found_.authority["tls.key"], key);
  Apply(kNow);
  EXPECT_EQ(found_.authority["tls.key"], key);
  EXPECT_TRUE(Good(kNow, found_.authority["tls.crt"]));
}

TEST_F(CertificatePlanTest, AStepOfTheClockByAnHourChangesNothing) {
  Apply(kNow);
  EXPECT_THAT(Apply(kNow + absl::Hours(1)), ElementsAre());
  EXPECT_THAT(Apply(kNow - absl::Hours(1)), ElementsAre());
}

TEST_F(CertificatePlanTest, ALostAuthorityComesBackFromMemory) {
  Apply(kNow);
  const std::string trusted = found_.authority["tls.crt"];
  found_ = {};
  EXPECT_THAT(Apply(kNow, authority_),
              ElementsAre(kAuthoritySecret, kServerSecret, kSchedulerSecret));
  EXPECT_EQ(found_.authority["tls.crt"], trusted);
  EXPECT_TRUE(Good(kNow, trusted));
}

TEST_F(CertificatePlanTest, WhatDoesNotFitIsMadeAnew) {
  const struct {
    std::string_view secret;
    std::string_view key;
    std::string value;
    std::vector<std::string_view> written;
  } kCases[] = {
      {kServerSecret, "tls.crt", "garbage", {kServerSecret}},
      {kServerSecret, "tls.key", "", {kServerSecret}},
      {kServerSecret, "ca.crt", "", {kServerSecret}},
      {kSchedulerSecret, "tls.key", "garbage", {kSchedulerSecret}},
      {kAuthoritySecret, "tls.key", "garbage", {kAuthoritySecret, kServerSecret, kSchedulerSecret}},
  };
  for (const auto& each : kCases) {
    Apply(kNow);
    Of(each.secret)[std::string(each.key)] = each.value;
    const std::vector<std::string> written = Apply(kNow);
    EXPECT_EQ(std::vector<std::string_view>(written.begin(), written.end()), each.written)
        << each.secret << " " << each.key;
    EXPECT_TRUE(Good(kNow, found_.authority["tls.crt"]));
    EXPECT_THAT(Apply(kNow), ElementsAre());
  }
}

TEST_F(CertificatePlanTest, AServerCertificateNeedsAllNames) {
  Apply(kNow);
  rules_.server_names.push_back("asterism-extender.other.svc");
  EXPECT_THAT(Apply(kNow), ElementsAre(kServerSecret));
  EXPECT_THAT(reasons_.front(), HasSubstr("asterism-extender.other.svc"));
}

TEST_F(CertificatePlanTest, SwappedLeavesAreMadeAnew) {
  Apply(kNow);
  std::swap(found_.server, found_.scheduler);
  EXPECT_THAT(Apply(kNow), ElementsAre(kServerSecret, kSchedulerSecret));
}

TEST_F(CertificatePlanTest, AnAuthorityThatSomebodyBroughtIsUsed) {
  Apply(kNow);
  const auto brought = server::MakeAuthority(
      {.common_name = "the site", .validity = {kNow - kDay, kNow + 1000 * kDay}});
  ASSERT_TRUE(brought.ok());
  found_.authority = {{"tls.crt", brought->certificate}, {"tls.key", brought->key}};
  EXPECT_THAT(Apply(kNow), ElementsAre(kServerSecret, kSchedulerSecret));
  EXPECT_TRUE(Good(kNow, brought->certificate));
}

// Whatever its name and key are.
TEST_F(CertificatePlanTest, ABroughtAuthorityIsRenewedUnderItsName) {
  for (const CertificateAndKey& brought :
       {server::testing::CorpRoot(), server::testing::NamelessRoot()}) {
    found_ = {};
    found_.authority = {{"tls.crt", brought.certificate}, {"tls.key", brought.key}};
    const absl::Time late = kNow + 60 * 365 * kDay;
    EXPECT_THAT(Apply(late), ElementsAre(kAuthoritySecret, kServerSecret, kSchedulerSecret));
    EXPECT_TRUE(Good(late, brought.certificate));
    EXPECT_THAT(Apply(late), ElementsAre());
  }
}

// It belongs to somebody who renews it; only what it signed itself is trusted.
TEST_F(CertificatePlanTest, AnAuthorityUnderAnotherOneIsNeverReplaced) {
  const CertificateAndKey brought = server::testing::CorpIntermediate();
  found_.authority = {{"tls.crt", brought.certificate}, {"tls.key", brought.key}};
  EXPECT_THAT(Apply(kNow), ElementsAre(kServerSecret, kSchedulerSecret));
  EXPECT_FALSE(server::CheckCertificate(server::testing::Printer(), found_.server["ca.crt"],
                                        CertificateUse::kClient, kNow)
                   .ok());
  // Near its end its leaves end with it, and are not made anew all the time.
  const absl::Time end = server::ReadCertificate(brought.certificate)->validity.not_after;
  EXPECT_THAT(Apply(end - absl::Hours(10)), ElementsAre(kServerSecret, kSchedulerSecret));
  EXPECT_THAT(Apply(end - absl::Hours(10)), ElementsAre());
  EXPECT_THAT(Apply(end - absl::Hours(1)), ElementsAre());
  const auto late = PlanCertificates(found_, brought, rules_, end + kDay);
  EXPECT_THAT(std::string(late.status().message()), HasSubstr("renew it where it comes from"));
  // The remedy: without the Secret there is an authority of Asterism's own.
  found_.authority = {};
  EXPECT_THAT(Apply(end + kDay, brought),
              ElementsAre(kAuthoritySecret, kServerSecret, kSchedulerSecret));
  EXPECT_TRUE(Good(end + kDay, found_.authority["tls.crt"]));
}

TEST_F(CertificatePlanTest, SecretsOfOthersNeedTheAuthorityOfTheCallers) {
  Apply(kNow);
  found_.server.erase("ca.crt");
  EXPECT_THAT(std::string(MaterialOf(found_.server, kNow).status().message()), HasSubstr("ca.crt"));
  EXPECT_THAT(std::string(MaterialOf({}, kNow).status().message()), HasSubstr("no certificate"));
  Apply(kNow);
  EXPECT_THAT(std::string(MaterialOf(found_.server, kNow + 100 * kDay).status().message()),
              HasSubstr("expired"));
}

}  // namespace
}  // namespace asterism::controller
