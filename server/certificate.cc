#include "server/certificate.h"

#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "server/openssl_pem.h"

namespace asterism::server {
namespace {

using internal::CertificateFromPem;
using internal::CertificatePtr;
using internal::CertificatesFromPem;
using internal::Freed;
using internal::KeyFromPem;
using internal::KeyPtr;
using internal::OpenSslError;

using StorePtr = std::unique_ptr<X509_STORE, Freed<X509_STORE_free>>;
using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, Freed<X509_STORE_CTX_free>>;
// Of certificates that somebody else owns.
void FreeStack(STACK_OF(X509) * stack) {
  sk_X509_free(stack);
}
using StackPtr = std::unique_ptr<STACK_OF(X509), Freed<FreeStack>>;
using NamesPtr = std::unique_ptr<GENERAL_NAMES, Freed<GENERAL_NAMES_free>>;

absl::StatusOr<absl::Time> TimeOf(const ASN1_TIME* time) {
  std::tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) {
    return OpenSslError("a certificate with a time that is none");
  }
  return absl::FromTM(parts, absl::UTCTimeZone());
}

std::string TextOf(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<size_t>(ASN1_STRING_length(text))};
}

std::string CommonNameOf(const X509_NAME* name) {
  const int at = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
  return at < 0 ? "" : TextOf(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
}

std::vector<std::string> DnsNamesOf(X509& certificate) {
  std::vector<std::string> found;
  const NamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS) {
      found.push_back(TextOf(name->d.dNSName));
    }
  }
  return found;
}

absl::StatusOr<StorePtr> StoreOf(const std::string& authorities) {
  ASSIGN_OR_RETURN(const std::vector<CertificatePtr> trusted, CertificatesFromPem(authorities));
  StorePtr store(X509_STORE_new());
  if (store == nullptr) {
    return OpenSslError("no memory");
  }
  for (const CertificatePtr& each : trusted) {
    if (X509_STORE_add_cert(store.get(), each.get()) != 1) {
      return OpenSslError("an authority that cannot be used");
    }
  }
  return store;
}

}  // namespace

absl::StatusOr<CertificateFacts> ReadCertificate(const std::string& pem) {
  ASSIGN_OR_RETURN(const CertificatePtr certificate, CertificateFromPem(pem));
  CertificateFacts facts;
  facts.common_name = CommonNameOf(X509_get_subject_name(certificate.get()));
  facts.dns_names = DnsNamesOf(*certificate);
  ASSIGN_OR_RETURN(facts.validity.not_before, TimeOf(X509_get0_notBefore(certificate.get())));
  ASSIGN_OR_RETURN(facts.validity.not_after, TimeOf(X509_get0_notAfter(certificate.get())));
  facts.authority = X509_check_ca(certificate.get()) == 1;  // 1: by its basic constraints
  facts.self_signed = X509_NAME_cmp(X509_get_subject_name(certificate.get()),
                                    X509_get_issuer_name(certificate.get())) == 0;
  return facts;
}

absl::StatusOr<std::string> FirstCertificate(const std::string& pem) {
  ASSIGN_OR_RETURN(const CertificatePtr certificate, CertificateFromPem(pem));
  return internal::ToPem(*certificate);
}

absl::Status CheckKey(const CertificateAndKey& pair) {
  ASSIGN_OR_RETURN(const CertificatePtr certificate, CertificateFromPem(pair.certificate));
  ASSIGN_OR_RETURN(const KeyPtr key, KeyFromPem(pair.key));
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return OpenSslError("the key is not that of the certificate");
  }
  return absl::OkStatus();
}

absl::Status CheckCertificate(const CertificateAndKey& pair, const std::string& authorities,
                              CertificateUse use, absl::Time now) {
  if (use == CertificateUse::kServerAndClient) {
    RETURN_IF_ERROR(CheckCertificate(pair, authorities, CertificateUse::kServer, now));
    use = CertificateUse::kClient;
  }
  RETURN_IF_ERROR(CheckKey(pair));
  ASSIGN_OR_RETURN(const std::vector<CertificatePtr> chain, CertificatesFromPem(pair.certificate));
  ASSIGN_OR_RETURN(const StorePtr store, StoreOf(authorities));
  const StoreContextPtr context(X509_STORE_CTX_new());
  const StackPtr between(sk_X509_new_null());
  for (size_t i = 1; i < chain.size(); ++i) {
    sk_X509_push(between.get(), chain[i].get());
  }
  if (context == nullptr ||
      X509_STORE_CTX_init(context.get(), store.get(), chain.front().get(), between.get()) != 1) {
    return OpenSslError("no memory");
  }
  X509_VERIFY_PARAM* const rules = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_time(rules, absl::ToTimeT(now));
  X509_STORE_CTX_set_purpose(context.get(), use == CertificateUse::kServer
                                                ? X509_PURPOSE_SSL_SERVER
                                                : X509_PURPOSE_SSL_CLIENT);
  // The authorities named here are the end of every chain, also where another one signed them.
  X509_VERIFY_PARAM_set_flags(rules, X509_V_FLAG_PARTIAL_CHAIN);
  if (X509_verify_cert(context.get()) != 1) {
    return absl::FailedPreconditionError(
        X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get())));
  }
  return absl::OkStatus();
}

}  // namespace asterism::server
