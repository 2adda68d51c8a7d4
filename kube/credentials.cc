#include "kube/credentials.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace asterism::kube {
namespace {

// client-go reads a token file again after a minute, less ten seconds of leeway.
constexpr absl::Duration kFileCredentialsLife = absl::Seconds(50);

class FixedSource final : public CredentialSource {
 public:
  explicit FixedSource(Credentials credentials)
      : credentials_(std::make_shared<const Credentials>(std::move(credentials))) {}
  void Get(CredentialsCallback done) override { done(credentials_); }
  void Refuse(const CredentialsPtr&) override {}

 private:
  const CredentialsPtr credentials_;
};

class FileSource final : public CredentialSource {
 public:
  FileSource(const base::Clock& clock, std::string token_path, std::string ca_path)
      : clock_(clock), token_path_(std::move(token_path)), ca_path_(std::move(ca_path)) {}

  void Get(CredentialsCallback done) override { done(Now()); }

  void Refuse(const CredentialsPtr& refused) override {
    absl::MutexLock lock(&mutex_);
    // The answer to a request from before the last reading says nothing about what we have now.
    if (refused == cached_) {
      cached_ = nullptr;
    }
  }

 private:
  absl::StatusOr<CredentialsPtr> Now() {
    absl::MutexLock lock(&mutex_);
    if (cached_ != nullptr && clock_.SteadyNow() < read_at_ + kFileCredentialsLife) {
      return cached_;
    }
    absl::StatusOr<Credentials> fresh = Read();
    if (!fresh.ok()) {
      if (cached_ != nullptr) {
        return cached_;  // an old token that the server has not refused is better than none
      }
      return fresh.status();
    }
    cached_ = std::make_shared<const Credentials>(*std::move(fresh));
    read_at_ = clock_.SteadyNow();
    return cached_;
  }

  absl::StatusOr<Credentials> Read() const {
    Credentials credentials;
    ASSIGN_OR_RETURN(credentials.bearer_token, base::ReadSmallFile(token_path_));
    absl::StripAsciiWhitespace(&credentials.bearer_token);
    if (credentials.bearer_token.empty()) {
      return absl::UnauthenticatedError(fmt::format("token file is empty: {}", token_path_));
    }
    if (!ca_path_.empty()) {
      ASSIGN_OR_RETURN(credentials.ca_pem, base::ReadSmallFile(ca_path_));
    }
    return credentials;
  }

  const base::Clock& clock_;
  const std::string token_path_;
  const std::string ca_path_;
  absl::Mutex mutex_;
  CredentialsPtr cached_ ABSL_GUARDED_BY(mutex_);
  base::SteadyTime read_at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<CredentialSource> FixedCredentials(Credentials credentials) {
  return std::make_shared<FixedSource>(std::move(credentials));
}

std::shared_ptr<CredentialSource> FileCredentials(const base::Clock& clock, std::string token_path,
                                                  std::string ca_path) {
  return std::make_shared<FileSource>(clock, std::move(token_path), std::move(ca_path));
}

absl::StatusOr<CredentialsPtr> WaitForCredentials(CredentialSource& source) {
  absl::StatusOr<CredentialsPtr> answer;
  absl::Notification answered;
  source.Get([&](absl::StatusOr<CredentialsPtr> credentials) {
    answer = std::move(credentials);
    answered.Notify();
  });
  answered.WaitForNotification();
  return answer;
}

}  // namespace asterism::kube
