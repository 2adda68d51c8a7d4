#include "server/certificate_authority.h"

#include <openssl/x509v3.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/status_macros.h"
#include "server/openssl_pem.h"

namespace asterism::server {
namespace {

using internal::CertificateFromPem;
using internal::CertificatePtr;
using internal::Freed;
using internal::KeyFromPem;
using internal::KeyPtr;
using internal::OpenSslError;
using internal::ToPem;

using NumberPtr = std::unique_ptr<BIGNUM, Freed<BN_free>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>>;

absl::StatusOr<KeyPtr> NewKey() {
  KeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) {
    return OpenSslError("cannot make a key");
  }
  return key;
}

// 126 random bits under a one: positive, never zero, and nobody can guess it (RFC 5280 4.1.2.2).
bool SetSerial(X509& certificate) {
  const NumberPtr number(BN_new());
  return number != nullptr &&
         BN_rand(number.get(), 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(&certificate)) != nullptr;
}

bool SetCommonName(X509& certificate, const std::string& name) {
  return X509_NAME_add_entry_by_NID(X509_get_subject_name(&certificate), NID_commonName,
                                    MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(name.data()),
                                    static_cast<int>(name.size()), -1, 0) == 1;
}

// Edwards curves bring their own.
const EVP_MD* DigestFor(EVP_PKEY& key) {
  const bool edwards = EVP_PKEY_is_a(&key, "ED25519") == 1 || EVP_PKEY_is_a(&key, "ED448") == 1;
  return edwards ? nullptr : EVP_sha256();
}

bool SetTimes(X509& certificate, const Validity& validity) {
  return ASN1_TIME_set(X509_getm_notBefore(&certificate), absl::ToTimeT(validity.not_before)) !=
             nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(&certificate), absl::ToTimeT(validity.not_after)) !=
             nullptr;
}

struct Extension {
  int id;
  std::string value;
};

bool AddExtensions(X509& certificate, X509& issuer, const std::vector<Extension>& extensions) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  return std::all_of(extensions.begin(), extensions.end(), [&](const Extension& each) {
    const ExtensionPtr made(X509V3_EXT_conf_nid(nullptr, &context, each.id, each.value.c_str()));
    return made != nullptr && X509_add_ext(&certificate, made.get(), -1) == 1;
  });
}

// All but the extensions and the signature.
absl::StatusOr<CertificatePtr> Begin(const std::string& common_name, const Validity& validity,
                                     EVP_PKEY& key) {
  if (validity.not_before >= validity.not_after) {
    return absl::InvalidArgumentError("a certificate that ends before it begins");
  }
  CertificatePtr certificate(X509_new());
  if (certificate == nullptr || X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
      !SetSerial(*certificate) || !SetCommonName(*certificate, common_name) ||
      !SetTimes(*certificate, validity) || X509_set_pubkey(certificate.get(), &key) != 1) {
    return OpenSslError("cannot make a certificate");
  }
  return certificate;
}

absl::StatusOr<CertificateAndKey> Finish(X509& certificate, X509& issuer, EVP_PKEY& issuer_key,
                                         EVP_PKEY& key, const std::vector<Extension>& extensions) {
  if (X509_set_issuer_name(&certificate, X509_get_subject_name(&issuer)) != 1 ||
      !AddExtensions(certificate, issuer, extensions) ||
      X509_sign(&certificate, &issuer_key, DigestFor(issuer_key)) == 0) {
    return OpenSslError("cannot sign a certificate");
  }
  CertificateAndKey made;
  ASSIGN_OR_RETURN(made.certificate, ToPem(certificate));
  ASSIGN_OR_RETURN(made.key, ToPem(key));
  return made;
}

// The syntax of OpenSSL's configuration has a meaning for commas and colons.
absl::StatusOr<std::string> AlternativeNames(const std::vector<std::string>& dns_names) {
  std::string text;
  for (const std::string& name : dns_names) {
    const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.';
    });
    if (!plain) {
      return absl::InvalidArgumentError("\"" + name + "\" is not a DNS name");
    }
    text += (text.empty() ? "DNS:" : ",DNS:") + name;
  }
  return text;
}

const char* ExtendedUse(CertificateUse use) {
  switch (use) {
    case CertificateUse::kServer:
      return "serverAuth";
    case CertificateUse::kClient:
      return "clientAuth";
    case CertificateUse::kServerAndClient:
      break;
  }
  return "serverAuth,clientAuth";
}

}  // namespace

absl::StatusOr<CertificateAndKey> MakeAuthority(const AuthorityRequest& request) {
  ASSIGN_OR_RETURN(const KeyPtr key, NewKey());
  ASSIGN_OR_RETURN(const CertificatePtr certificate,
                   Begin(request.common_name, request.validity, *key));
  return Finish(*certificate, *certificate, *key, *key,
                {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                 {NID_key_usage, "critical,keyCertSign,cRLSign"},
                 {NID_subject_key_identifier, "hash"}});
}

absl::StatusOr<CertificateAndKey> RenewAuthority(const CertificateAndKey& authority,
                                                 const Validity& validity) {
  ASSIGN_OR_RETURN(const CertificatePtr old, CertificateFromPem(authority.certificate));
  ASSIGN_OR_RETURN(const KeyPtr key, KeyFromPem(authority.key));
  const CertificatePtr renewed(X509_dup(old.get()));
  if (renewed == nullptr || !SetSerial(*renewed) || !SetTimes(*renewed, validity) ||
      X509_sign(renewed.get(), key.get(), DigestFor(*key)) == 0) {
    return OpenSslError("cannot renew a certificate");
  }
  ASSIGN_OR_RETURN(std::string certificate, ToPem(*renewed));
  return CertificateAndKey{std::move(certificate), authority.key};
}

absl::StatusOr<CertificateAndKey> IssueCertificate(const CertificateAndKey& authority,
                                                   const CertificateRequest& request) {
  ASSIGN_OR_RETURN(const CertificatePtr issuer, CertificateFromPem(authority.certificate));
  ASSIGN_OR_RETURN(const KeyPtr issuer_key, KeyFromPem(authority.key));
  ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(authority.certificate));
  ASSIGN_OR_RETURN(const std::string alternative_names, AlternativeNames(request.dns_names));
  ASSIGN_OR_RETURN(const KeyPtr key, NewKey());
  Validity validity = request.validity;
  validity.not_after = std::min(validity.not_after, facts.validity.not_after);
  ASSIGN_OR_RETURN(const CertificatePtr certificate, Begin(request.common_name, validity, *key));
  // The issuer is named by its key alone, so that a new certificate of the same authority fits too.
  std::vector<Extension> extensions = {{NID_basic_constraints, "critical,CA:FALSE"},
                                       {NID_key_usage, "critical,digitalSignature"},
                                       {NID_ext_key_usage, ExtendedUse(request.use)},
                                       {NID_subject_key_identifier, "hash"},
                                       {NID_authority_key_identifier, "keyid"}};
  if (!alternative_names.empty()) {
    extensions.push_back({NID_subject_alt_name, alternative_names});
  }
  return Finish(*certificate, *issuer, *issuer_key, *key, extensions);
}

}  // namespace asterism::server
