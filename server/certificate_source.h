// File: server/certificate_source.h
//
// Where a server's certificate comes from: files that may be replaced at any time, or memory. A
// server asks before each new connection, so a renewed certificate needs no restart.
//
//   std::shared_ptr<const TlsMaterial> material = source.Current();
//   if (material != last) { ... build what the server needs from it ... }
//
// A source only ever hands out what MakeTlsContext has accepted: certificate and key belong
// together. Two calls give the same pointer as long as nothing has changed.
//
// Thread-safety: Current from any thread. Cost: a lock, and what the source needs to look.
#pragma once

#include <memory>
#include <string>

namespace asterism::server {

// All PEM.
struct TlsMaterial {
  std::string certificate;  // the server's own first, then its chain
  std::string key;
  // Who signs the certificates of callers; empty: no caller can show one.
  std::string client_authorities;

  bool operator==(const TlsMaterial&) const = default;
};

class CertificateSource {
 public:
  virtual ~CertificateSource() = default;

  // Never null.
  virtual std::shared_ptr<const TlsMaterial> Current() = 0;
};

}  // namespace asterism::server
