#include "controller/certificate_keeper.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "base/clock.h"
#include "gmock/gmock.h"
#include "kube/testing/fake_api_server.h"
#include "nlohmann/json.hpp"
#include "server/certificate_authority.h"

namespace asterism::controller {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kInstallation[] = "asterism-system";
constexpr kube::ResourceType kSecrets{"", "v1", "secrets", "Secret", true, false};
constexpr absl::Duration kOneDay = absl::Hours(24);

// A process with its slot and its keeper.
struct Process {
  Process(const base::Clock& clock, base::Executor& executor, kube::Client& client, bool leading,
          bool issue = true)
      : slot(*server::CertificateSlot::Make(clock)),
        leads(leading),
        keeper({clock, executor, client, *slot, metrics, [this] { return leads; }},
               {.namespace_name = kInstallation, .issue = issue}) {
    keeper.Start();
  }

  base::MetricRegistry registry;
  CertificateMetrics metrics{registry};
  std::unique_ptr<server::CertificateSlot> slot;
  bool leads;
  CertificateKeeper keeper;
};

class CertificateKeeperTest : public ::testing::Test {
 protected:
  std::unique_ptr<Process> Start(bool leading, bool issue = true) {
    auto process = std::make_unique<Process>(clock_, executor_, server_, leading, issue);
    executor_.RunFor(absl::Seconds(2));
    return process;
  }
  std::string Value(std::string_view secret, const std::string& key) const {
    const auto found = server_.Find(kSecrets, {kInstallation, std::string(secret)});
    std::string decoded;
    if (found != nullptr && found->contains("data") && (*found)["data"].contains(key)) {
      absl::Base64Unescape((*found)["data"][key].get<std::string>(), &decoded);
    }
    return decoded;
  }
  void Replace(std::string_view secret, const server::CertificateAndKey& pair,
               const std::string& authority) {
    json object;
    object["metadata"] = {{"namespace", kInstallation}, {"name", std::string(secret)}};
    object["data"] = {{"tls.crt", absl::Base64Escape(pair.certificate)},
                      {"tls.key", absl::Base64Escape(pair.key)},
                      {"ca.crt", absl::Base64Escape(authority)}};
    server_.Put(kSecrets, object);
  }
  // The certificate shown is good for who trusts the authority that stands in the Secret.
  bool Trusted(Process& process) const {
    const auto shown = process.slot->Current();
    return server::CheckCertificate({shown->certificate, shown->key},
                                    Value(kAuthoritySecret, "tls.crt"),
                                    server::CertificateUse::kServer, clock_.Now())
        .ok();
  }
  int Writes() const {
    int all = 0;
    for (const auto& [request, count] : server_.requests()) {
      all += request == "create secrets" || request == "patch secrets" ? count : 0;
    }
    return all;
  }

  base::SimClock clock_;
  base::SimExecutor executor_{clock_};
  kube::testing::FakeApiServer server_{clock_, executor_, {}};
};

TEST_F(CertificateKeeperTest, TheLeaderMakesWhatTheStandbyShowsToo) {
  const auto standby = Start(false);
  EXPECT_THAT(standby->keeper.Missing(), ElementsAre(HasSubstr("holds no certificate yet")));
  EXPECT_EQ(Writes(), 0);
  const auto leader = Start(true);
  EXPECT_THAT(leader->keeper.Missing(), IsEmpty());
  EXPECT_TRUE(Trusted(*leader));
  executor_.RunFor(absl::Seconds(2));
  EXPECT_THAT(standby->keeper.Missing(), IsEmpty());
  EXPECT_TRUE(*standby->slot->Current() == *leader->slot->Current());
  EXPECT_EQ(Writes(), 3);
  EXPECT_THAT(leader->registry.Expose(),
              HasSubstr("asterism_certificate_renewals_total{certificate=\"server\"} 1"));
}

TEST_F(CertificateKeeperTest, AnIdleHourWritesNothing) {
  const auto leader = Start(true);
  executor_.RunFor(absl::Hours(1));
  EXPECT_EQ(Writes(), 3);
}

TEST_F(CertificateKeeperTest, FillsTheEmptySecretsOfTheChart) {
  for (const std::string_view name : {kAuthoritySecret, kServerSecret, kSchedulerSecret}) {
    server_.Put(kSecrets, {{"metadata",
                            {{"namespace", kInstallation},
                             {"name", std::string(name)},
                             {"labels", {{"a", "b"}, {"c", "d"}}}}}});
  }
  const auto leader = Start(true);
  EXPECT_TRUE(Trusted(*leader));
  EXPECT_EQ(server_.requests().count("create secrets"), 0);
  EXPECT_EQ(
      (*server_.Find(kSecrets, {kInstallation, std::string(kServerSecret)}))["metadata"]["labels"],
      json({{"a", "b"}, {"c", "d"}}));
}

TEST_F(CertificateKeeperTest, RenewsWithoutARestartLongBeforeTheEnd) {
  const auto leader = Start(true);
  const auto standby = Start(false);
  const std::string first = Value(kServerSecret, "tls.crt");
  const std::string trusted = Value(kSchedulerSecret, "ca.crt");
  for (int day = 0; day < 365; day += 5) {
    clock_.Advance(5 * kOneDay);
    executor_.RunFor(absl::Seconds(30));
    ASSERT_TRUE(Trusted(*leader)) << day;
    ASSERT_TRUE(Trusted(*standby)) << day;
  }
  EXPECT_NE(Value(kServerSecret, "tls.crt"), first);
  // kube-scheduler has read the authority a year ago.
  EXPECT_EQ(Value(kServerSecret, "ca.crt"), trusted);
  EXPECT_LE(Writes(), 3 + 2 * 7);
}

TEST_F(CertificateKeeperTest, LostEmptiedAndForeignSecretsAreGoodWithinAMinute) {
  const auto leader = Start(true);
  const std::string authority = Value(kAuthoritySecret, "tls.crt");
  const auto stranger = server::MakeAuthority(
      {.common_name = "stranger", .validity = {clock_.Now() - kOneDay, clock_.Now() + kOneDay}});
  ASSERT_TRUE(stranger.ok());
  const auto foreign = server::IssueCertificate(
      *stranger,
      {.common_name = "x", .validity = {clock_.Now() - kOneDay, clock_.Now() + kOneDay}});
  ASSERT_TRUE(foreign.ok());
  const auto heals = [&](auto damage) {
    damage();
    executor_.RunFor(absl::Minutes(1));
    return Trusted(*leader) && leader->keeper.Missing().empty() &&
           Value(kServerSecret, "ca.crt") == authority;
  };
  EXPECT_TRUE(heals([&] {
    server_.Remove(kSecrets, {kInstallation, std::string(kServerSecret)});
  }));
  EXPECT_TRUE(heals([&] {
    server_.Remove(kSecrets, {kInstallation, std::string(kAuthoritySecret)});
  }));
  EXPECT_TRUE(heals([&] { Replace(kServerSecret, *foreign, stranger->certificate); }));
  EXPECT_TRUE(heals([&] { Replace(kAuthoritySecret, {}, ""); }));
  EXPECT_TRUE(heals([&] {
    for (const std::string_view name : {kAuthoritySecret, kServerSecret, kSchedulerSecret}) {
      server_.Remove(kSecrets, {kInstallation, std::string(name)});
    }
  }));
}

TEST_F(CertificateKeeperTest, ARestartedLeaderKeepsTheAuthority) {
  Start(true).reset();
  const std::string authority = Value(kAuthoritySecret, "tls.crt");
  const auto next = Start(true);
  EXPECT_EQ(Value(kAuthoritySecret, "tls.crt"), authority);
  EXPECT_EQ(Writes(), 3);
}

TEST_F(CertificateKeeperTest, AStandbyKnowsTheAuthorityWhenItTakesOver) {
  auto leader = Start(true);
  const auto standby = Start(false);
  executor_.RunFor(absl::Seconds(15));
  const std::string authority = Value(kAuthoritySecret, "tls.crt");
  server_.Remove(kSecrets, {kInstallation, std::string(kAuthoritySecret)});
  leader.reset();
  standby->leads = true;
  executor_.RunFor(absl::Minutes(1));
  EXPECT_EQ(Value(kAuthoritySecret, "tls.crt"), authority);
  EXPECT_EQ(Writes(), 4);
}

TEST_F(CertificateKeeperTest, TwoLeadersAtOnceEndWithOneAuthority) {
  const auto one = std::make_unique<Process>(clock_, executor_, server_, true);
  const auto other = std::make_unique<Process>(clock_, executor_, server_, true);
  executor_.RunFor(absl::Minutes(2));
  EXPECT_TRUE(Trusted(*one));
  EXPECT_TRUE(Trusted(*other));
  EXPECT_TRUE(*one->slot->Current() == *other->slot->Current());
}

TEST_F(CertificateKeeperTest, WithoutTheRightToWriteItSaysSo) {
  server_.SetAdmission([](const kube::ResourceType&, std::string_view verb, json&) {
    return verb == "create" ? absl::PermissionDeniedError("secrets is forbidden")
                            : absl::OkStatus();
  });
  const auto leader = Start(true);
  EXPECT_THAT(leader->keeper.Missing(), ElementsAre(AllOf(HasSubstr("cannot write Secret"),
                                                          HasSubstr("secrets is forbidden"))));
  EXPECT_FALSE(leader->registry.Expose().find("asterism_certificate_failures_total 0") !=
               std::string::npos);
  server_.SetAdmission({});
  executor_.RunFor(absl::Seconds(5));
  EXPECT_THAT(leader->keeper.Missing(), IsEmpty());
}

// The API server is away until the certificate has expired: that is said, and mended when it is
// back.
TEST_F(CertificateKeeperTest, AnExpiredCertificateIsSaidAndReplaced) {
  const auto leader = Start(true);
  server_.SetDown(true);
  clock_.Advance(100 * kOneDay);
  executor_.RunFor(absl::Minutes(2));
  EXPECT_FALSE(Trusted(*leader));
  // Without the right to write, too.
  server_.SetDown(false);
  server_.SetAdmission([](const kube::ResourceType&, std::string_view verb, json&) {
    return verb == "get" ? absl::OkStatus() : absl::PermissionDeniedError("no");
  });
  executor_.RunFor(absl::Minutes(1));
  EXPECT_THAT(leader->keeper.Missing(), ElementsAre(HasSubstr("certificate")));
  server_.SetAdmission({});
  executor_.RunFor(absl::Minutes(2));
  EXPECT_TRUE(Trusted(*leader));
  EXPECT_THAT(leader->keeper.Missing(), IsEmpty());
}

TEST_F(CertificateKeeperTest, SecretsOfSomebodyElseAreOnlyRead) {
  const auto leader = Start(true, /*issue=*/false);
  EXPECT_THAT(leader->keeper.Missing(), ElementsAre(HasSubstr(kServerSecret)));
  const auto site = server::MakeAuthority(
      {.common_name = "site", .validity = {clock_.Now() - kOneDay, clock_.Now() + kOneDay}});
  const auto leaf = server::IssueCertificate(
      *site, {.common_name = "x", .validity = {clock_.Now() - kOneDay, clock_.Now() + kOneDay}});
  Replace(kServerSecret, *leaf, site->certificate);
  executor_.RunFor(absl::Seconds(5));
  EXPECT_THAT(leader->keeper.Missing(), IsEmpty());
  EXPECT_EQ(leader->slot->Current()->certificate, leaf->certificate);
  // Expired and not renewed by its owner.
  clock_.Advance(2 * kOneDay);
  executor_.RunFor(absl::Minutes(1));
  EXPECT_THAT(leader->keeper.Missing(), ElementsAre(HasSubstr("expired")));
  EXPECT_EQ(Writes(), 0);
}

}  // namespace
}  // namespace asterism::controller
