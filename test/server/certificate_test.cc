#include "server/certificate.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "gmock/gmock.h"
#include "server/certificate_authority.h"

namespace asterism::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

Validity Around(absl::Duration before, absl::Duration after) {
  return {kNow - before, kNow + after};
}

CertificateAndKey AuthorityOf(const std::string& name, Validity validity, std::string key = {}) {
  const auto made =
      MakeAuthority({.common_name = name, .validity = validity, .key = std::move(key)});
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

TEST_F(CertificateTest, ARenewedAuthorityWithItsKeyVouchesForOldAndNew) {
  const CertificateAndKey renewed =
      AuthorityOf("asterism", Around(absl::Hours(1), absl::Hours(9000)), authority_.key);
  EXPECT_NE(renewed.certificate, authority_.certificate);
  EXPECT_EQ(Fault(LeafOf(renewed)), "");
  EXPECT_TRUE(
      CheckCertificate(LeafOf(authority_), renewed.certificate, CertificateUse::kServer, kNow)
          .ok());
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
  EXPECT_FALSE(MakeAuthority({.common_name = "x", .validity = hour, .key = "none"}).ok());
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
