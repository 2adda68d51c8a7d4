// File: controller/certificate_keeper.h
//
// Keeps the certificates of Asterism good. Every process reads the Secret of the server's
// certificate and shows what it holds; the leader also makes and renews all three Secrets (see
// controller/certificate_plan.h), unless somebody else does, such as cert-manager.
//
//   CertificateKeeper keeper({clock, executor, client, slot, metrics, may_write}, options);
//   executor.Post([&] { keeper.Start(); });
//
// It looks every ten seconds, so a Secret that was lost, emptied or replaced by something that does
// not fit is good again within a minute; the authority is remembered for that. Nothing is written
// where nothing is to do.
//
// Thread-safety: on the executor, but for Missing. Cost: three reads of the API a look.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/metrics.h"
#include "controller/certificate_metrics.h"
#include "controller/certificate_plan.h"
#include "kube/client.h"
#include "server/certificate_slot.h"

namespace asterism::controller {

struct CertificateKeeperOptions {
  std::string namespace_name;
  bool issue = true;             // false: somebody else writes the Secrets
  std::string agents_namespace;  // empty: there are no agents
  absl::Duration look_period = absl::Seconds(10);
  absl::Duration retry_period =
      absl::Seconds(1);  // while there is no certificate, or after a write
};

class CertificateKeeper {
 public:
  struct Dependencies {
    const base::Clock& clock;
    base::Executor& executor;
    kube::Client& client;
    server::CertificateSlot& slot;
    CertificateMetrics& metrics;
    std::function<bool()> may_write;
  };

  CertificateKeeper(Dependencies dependencies, CertificateKeeperOptions options);

  void Start();
  // Why callers cannot trust this server yet; empty: they can. From any thread.
  std::vector<std::string> Missing() const;

 private:
  struct Secret {
    std::string resource_version;  // empty: there is none
    SecretData data;
  };

  const std::string& NamespaceOf(std::string_view secret) const;
  void Look();
  void ReadNext();
  void OnRead(std::string_view name, const absl::StatusOr<kube::Reply>& reply);
  void Judge();
  absl::Status Show(const SecretData& secret);
  void Wait(const absl::Status& shown);
  void WriteNext();
  void OnWritten(const SecretWrite& write, const absl::Status& status);
  void Fail(std::string_view what, const absl::Status& status);
  void LookAgain(absl::Duration delay);
  void SetMissing(std::string reason);

  Dependencies dependencies_;
  const CertificateKeeperOptions options_;
  const CertificateRules rules_;
  server::CertificateAndKey authority_;  // of the last plan
  std::vector<std::string_view> unread_;
  std::map<std::string_view, Secret> found_;  // of this look
  std::vector<SecretWrite> writes_;           // what is left of this look's plan, last one first
  bool shown_ = false;                        // the Secret's certificate was good when last read
  std::string last_failure_;
  mutable absl::Mutex mutex_;
  std::string missing_ ABSL_GUARDED_BY(mutex_) = "no certificate has been read yet";
  base::OwnedTimer timer_;
  base::Alive alive_;
};

}  // namespace asterism::controller
