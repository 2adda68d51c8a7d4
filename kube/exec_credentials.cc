#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/executor.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "kube/credentials.h"
#include "kube/json_reader.h"

namespace asterism::kube {
namespace {

// New credentials are fetched when a fifth of the old ones' life is left, or this.
constexpr absl::Duration kRefreshAheadMax = absl::Minutes(2);
constexpr absl::Duration kPauseMin = absl::Seconds(1);  // between two runs; doubled by each failure
constexpr absl::Duration kPauseMax = absl::Seconds(30);

class ExecSource final : public CredentialSource {
 public:
  ExecSource(const base::Clock& clock, ExecPlugin plugin, ProgramRunner runner)
      : clock_(clock), plugin_(std::move(plugin)), runner_(std::move(runner)) {}
  ~ExecSource() override { cancelled_ = true; }

  void Get(CredentialsCallback done) override {
    absl::StatusOr<CredentialsPtr> answer;
    {
      absl::MutexLock lock(&mutex_);
      const base::SteadyTime now = clock_.SteadyNow();
      if (!running_ && now >= refresh_at_ && now >= may_run_at_) {
        running_ = true;
        worker_.Post([this] { Refresh(); });
      }
      if (running_ && now >= valid_until_) {
        waiting_.push_back(std::move(done));
        return;
      }
      answer = Known();
    }
    done(std::move(answer));
  }

  void Refuse(const CredentialsPtr& refused) override {
    absl::MutexLock lock(&mutex_);
    // The answer to a request from before the last refresh says nothing about what we have now.
    if (refused == cached_) {
      cached_ = nullptr;
      error_ = Bad("gave credentials that the API server refuses");
      valid_until_ = refresh_at_ = base::SteadyTime();
    }
  }

 private:
  // An old token that the server has not refused is better than none.
  absl::StatusOr<CredentialsPtr> Known() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (cached_ == nullptr) {
      return error_;
    }
    return cached_;
  }

  // On the worker.
  void Refresh() {
    absl::Duration life = absl::InfiniteDuration();
    absl::StatusOr<Credentials> fresh = Fetch(life);
    std::vector<CredentialsCallback> waiting;
    absl::StatusOr<CredentialsPtr> answer;
    {
      absl::MutexLock lock(&mutex_);
      const base::SteadyTime now = clock_.SteadyNow();
      running_ = false;
      if (fresh.ok()) {
        pause_ = kPauseMin;
        cached_ = std::make_shared<const Credentials>(*std::move(fresh));
        // The sum with an infinite duration would overflow.
        life = std::min(life, absl::Hours(24 * 365));
        valid_until_ = now + life;
        refresh_at_ = valid_until_ + -std::min(life / 5, kRefreshAheadMax);
      } else {
        error_ = fresh.status();
      }
      may_run_at_ = now + pause_;
      if (!fresh.ok()) {
        pause_ = std::min(pause_ * 2, kPauseMax);
      }
      answer = Known();
      waiting.swap(waiting_);
    }
    for (CredentialsCallback& done : waiting) {
      done(answer);
    }
  }

  absl::StatusOr<Credentials> Fetch(absl::Duration& life) const {
    const std::string info = fmt::format(
        R"({{"apiVersion":"{}","kind":"ExecCredential","spec":{{"interactive":false{}{}}}}})",
        plugin_.api_version,
        plugin_.cluster_json.empty() ? "" : ",\"cluster\":", plugin_.cluster_json);
    ASSIGN_OR_RETURN(const std::string output, runner_(plugin_, info, cancelled_));
    return Read(output, life);
  }

  absl::StatusOr<Credentials> Read(const std::string& output, absl::Duration& life) const {
    JsonReader reader;
    const absl::StatusOr<JsonObject> root = reader.Parse(output);
    if (!root.ok()) {
      return Bad("wrote no JSON object");
    }
    if (reader.Text(*root, "kind") != "ExecCredential" ||
        reader.Text(*root, "apiVersion") != plugin_.api_version) {
      return Bad(
          fmt::format("must answer with kind ExecCredential, apiVersion {}", plugin_.api_version));
    }
    Credentials credentials;
    std::optional<absl::Time> expires;
    reader.Child(*root, "status", [&](const JsonObject& status) {
      credentials.bearer_token = reader.Text(status, "token");
      credentials.client_certificate_pem = reader.Text(status, "clientCertificateData");
      credentials.client_key_pem = reader.Text(status, "clientKeyData");
      const absl::Time end = reader.Time(status, "expirationTimestamp", absl::InfiniteFuture());
      if (end != absl::InfiniteFuture()) {
        expires = end;
      }
    });
    if (!reader.status().ok()) {
      return Bad(std::string(reader.status().message()));
    }
    if (credentials.client_certificate_pem.empty() != credentials.client_key_pem.empty()) {
      return Bad("gave only one of clientCertificateData and clientKeyData");
    }
    if (credentials.bearer_token.empty() && credentials.client_key_pem.empty()) {
      return Bad("gave neither token nor clientCertificateData");
    }
    if (expires.has_value()) {
      life = *expires - clock_.Now();
    }
    return credentials;
  }

  absl::Status Bad(std::string_view what) const {
    return absl::UnauthenticatedError(fmt::format("exec plug-in {}: {}", plugin_.command, what));
  }

  const base::Clock& clock_;
  const ExecPlugin plugin_;
  const ProgramRunner runner_;
  std::atomic<bool> cancelled_{false};

  absl::Mutex mutex_;
  CredentialsPtr cached_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);  // what to say when `cached_` is null
  base::SteadyTime valid_until_ ABSL_GUARDED_BY(mutex_);
  base::SteadyTime refresh_at_ ABSL_GUARDED_BY(mutex_);
  base::SteadyTime may_run_at_ ABSL_GUARDED_BY(mutex_);
  absl::Duration pause_ ABSL_GUARDED_BY(mutex_) = kPauseMin;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<CredentialsCallback> waiting_ ABSL_GUARDED_BY(mutex_);
  // Last: its end waits for the run, which uses the rest.
  base::ThreadExecutor worker_{"exec-auth"};
};

}  // namespace

std::shared_ptr<CredentialSource> ExecCredentials(const base::Clock& clock, ExecPlugin plugin,
                                                  ProgramRunner runner) {
  return std::make_shared<ExecSource>(clock, std::move(plugin), std::move(runner));
}

}  // namespace asterism::kube
