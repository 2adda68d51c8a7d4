#include "server/certificate.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "gmock/gmock.h"
#include "server/certificate_authority.h"
#include "test/server/brought_authorities.h"

namespace asterism::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

Validity Around(absl::Duration before, absl::Duration after) {
  return {kNow - before, kNow + after};
}

CertificateAndKey AuthorityOf(const std::string& name, Validity validity) {
  const auto made = MakeAuthority({.common_name = name, .validity = validity});
  EXPECT_TRUE(made.ok()) << made.status();
  return made.value_or(CertificateAndKey());
}

CertificateAndKey LeafOf(const CertificateAndKey& authority,
                         CertificateUse use = CertificateUse::kServer,
                         Validity validity = Around(absl::Hours(1), absl::Hours(24))) {
  const auto made = IssueCertificate(authority, {.common_name = "extender",
                                                 .dns_names = {"extender", "extender.ns.svc"},
                                                 .use = use,
                                                 .validity = validity});
  EXPECT_TRUE(made.ok()) << made.status();
  return made.value_or(CertificateAndKey());
}

class CertificateTest : public ::testing::Test {
 protected:
  std::string Fault(const CertificateAndKey& leaf, CertificateUse use = CertificateUse::kServer,
                    absl::Time now = kNow) const {
    return std::string(CheckCertificate(leaf, authority_.certificate, use, now).message());
  }

  const CertificateAndKey authority_ =
      AuthorityOf("asterism", Around(absl::Hours(1), absl::Hours(1000)));
};

TEST_F(CertificateTest, SaysWhatItIs) {
  const auto leaf = ReadCertificate(LeafOf(authority_).certificate);
  ASSERT_TRUE(leaf.ok()) << leaf.status();
  EXPECT_EQ(leaf->common_name, "extender");
  EXPECT_THAT(leaf->dns_names, ElementsAre("extender", "extender.ns.svc"));
  EXPECT_EQ(leaf->validity.not_before, kNow - absl::Hours(1));
  EXPECT_EQ(leaf->validity.not_after, kNow + absl::Hours(24));
  EXPECT_FALSE(leaf->authority);
  EXPECT_FALSE(leaf->self_signed);
  const auto authority = ReadCertificate(authority_.certificate);
  ASSERT_TRUE(authority.ok()) << authority.status();
  EXPECT_TRUE(authority->authority);
  EXPECT_TRUE(authority->self_signed);
}

TEST_F(CertificateTest, IsGoodForItsUseInItsTime) {
  const CertificateAndKey server = LeafOf(authority_);
  EXPECT_EQ(Fault(server), "");
  EXPECT_THAT(Fault(server, CertificateUse::kClient), HasSubstr("purpose"));
  EXPECT_EQ(Fault(LeafOf(authority_, CertificateUse::kClient), CertificateUse::kClient), "");
  EXPECT_THAT(Fault(server, CertificateUse::kServer, kNow + absl::Hours(25)), HasSubstr("expired"));
  EXPECT_THAT(Fault(server, CertificateUse::kServer, kNow - absl::Hours(2)),
              HasSubstr("not yet valid"));
}

TEST_F(CertificateTest, CanBeForBothUsesAndOneOfThemIsNotBoth) {
  const CertificateUse both = CertificateUse::kServerAndClient;
  const CertificateAndKey leaf = LeafOf(authority_, both);
  EXPECT_EQ(Fault(leaf, both), "");
  EXPECT_EQ(Fault(leaf, CertificateUse::kServer), "");
  EXPECT_EQ(Fault(leaf, CertificateUse::kClient), "");
  EXPECT_THAT(Fault(LeafOf(authority_, CertificateUse::kServer), both), HasSubstr("purpose"));
  EXPECT_THAT(Fault(LeafOf(authority_, CertificateUse::kClient), both), HasSubstr("purpose"));
}

TEST_F(CertificateTest, AnotherAuthorityOrKeyIsRefused) {
  const CertificateAndKey twin = AuthorityOf("asterism", Around(absl::Hours(1), absl::Hours(1000)));
  EXPECT_NE(Fault(LeafOf(twin)), "");
  CertificateAndKey mixed = LeafOf(authority_);
  mixed.key = LeafOf(authority_).key;
  EXPECT_THAT(Fault(mixed), HasSubstr("the key is not that of the certificate"));
}

TEST_F(CertificateTest, ALeafCannotSign) {
  const CertificateAndKey leaf = LeafOf(authority_);
  CertificateAndKey forged = LeafOf(leaf);
  forged.certificate += leaf.certificate;  // with its chain
  EXPECT_NE(Fault(forged), "");
}

// Whoever trusts the old certificate trusts what the new one signs, and the other way round,
// whatever name, key and extensions somebody gave it.
TEST(RenewAuthorityTest, VouchesForOldAndNew) {
  for (const CertificateAndKey& authority :
       {AuthorityOf("asterism", Around(absl::Hours(1), absl::Hours(1000))), testing::CorpRoot(),
        testing::NamelessRoot()}) {
    const auto renewed = RenewAuthority(authority, Around(absl::Hours(1), absl::Hours(9000)));
    ASSERT_TRUE(renewed.ok()) << renewed.status();
    EXPECT_NE(renewed->certificate, authority.certificate);
    EXPECT_EQ(ReadCertificate(renewed->certificate)->validity.not_after, kNow + absl::Hours(9000));
    const auto check = [](const CertificateAndKey& leaf, const CertificateAndKey& trusted) {
      return CheckCertificate(leaf, trusted.certificate, CertificateUse::kServer, kNow);
    };
    EXPECT_TRUE(check(LeafOf(*renewed), authority).ok());
    EXPECT_TRUE(check(LeafOf(authority), *renewed).ok());
    EXPECT_TRUE(check(LeafOf(*renewed), *renewed).ok());
  }
}

TEST(FirstCertificateTest, LeavesTheChainAway) {
  const CertificateAndKey intermediate = testing::CorpIntermediate();
  const auto first = FirstCertificate(intermediate.certificate);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(ReadCertificate(*first)->common_name, "Intermediate");
  // What the root signs is good under the whole, and not under the first.
  const auto printer = [](const std::string& trusted) {
    return CheckCertificate(testing::Printer(), trusted, CertificateUse::kClient, kNow).ok();
  };
  EXPECT_TRUE(printer(intermediate.certificate));
  EXPECT_FALSE(printer(*first));
}

TEST_F(CertificateTest, EndsWithItsAuthority) {
  const CertificateAndKey leaf =
      LeafOf(authority_, CertificateUse::kServer, Around(absl::Hours(1), absl::Hours(99999)));
  EXPECT_EQ(ReadCertificate(leaf.certificate)->validity.not_after, kNow + absl::Hours(1000));
}

TEST_F(CertificateTest, RequestsThatMakeNoSenseAreErrors) {
  const auto issue = [&](const std::string& dns_name, Validity validity) {
    return std::string(
        IssueCertificate(authority_,
                         {.common_name = "x", .dns_names = {dns_name}, .validity = validity})
            .status()
            .message());
  };
  const Validity hour = Around(absl::Hours(1), absl::Hours(1));
  EXPECT_EQ(issue("fine", hour), "");
  EXPECT_THAT(issue("a,DNS:evil", hour), HasSubstr("is not a DNS name"));
  EXPECT_THAT(issue("", hour), HasSubstr("is not a DNS name"));
  EXPECT_THAT(issue("fine", {kNow, kNow}), HasSubstr("ends before it begins"));
  EXPECT_FALSE(MakeAuthority({.common_name = "x", .validity = {kNow, kNow}}).ok());
  EXPECT_FALSE(RenewAuthority({authority_.certificate, "none"}, hour).ok());
}

RC_GTEST_PROP(CertificateProperty, NoTextCrashesTheReader, ()) {
  static const CertificateAndKey& good =
      *new CertificateAndKey(AuthorityOf("a", Around(absl::Hours(1), absl::Hours(1))));
  CertificateAndKey bent = good;
  for (std::string* text : {&bent.certificate, &bent.key}) {
    const auto at = *rc::gen::inRange<size_t>(0, text->size());
    const auto length = *rc::gen::inRange<size_t>(0, 200);
    text->replace(at, length, *rc::gen::arbitrary<std::string>());
  }
  ReadCertificate(bent.certificate).status().IgnoreError();
  CheckKey(bent).IgnoreError();
  CheckCertificate(bent, bent.certificate, CertificateUse::kClient, kNow).IgnoreError();
  // The good one is as good as before, whatever was left in OpenSSL's error queue.
  RC_ASSERT(CheckKey(good).ok());
}

}  // namespace
}  // namespace asterism::server
