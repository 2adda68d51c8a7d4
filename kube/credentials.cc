#include "kube/credentials.h"

#include <fstream>
#include <iterator>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "kube/json_reader.h"

namespace asterism::kube {
namespace {

constexpr std::streamsize kMaxFileBytes = 4 << 20;
// client-go reads a token file again after a minute, less ten seconds of leeway.
constexpr absl::Duration kFileCredentialsLife = absl::Seconds(50);

class FixedSource final : public CredentialSource {
 public:
  explicit FixedSource(Credentials credentials)
      : credentials_(std::make_shared<const Credentials>(std::move(credentials))) {}
  absl::StatusOr<std::shared_ptr<const Credentials>> Get() override { return credentials_; }
  void Refuse() override {}

 private:
  const std::shared_ptr<const Credentials> credentials_;
};

// What both rotating sources share: a cached value with an end.
class CachingSource : public CredentialSource {
 public:
  explicit CachingSource(const base::Clock& clock) : clock_(clock) {}

  absl::StatusOr<std::shared_ptr<const Credentials>> Get() final {
    absl::MutexLock lock(&mutex_);
    if (cached_ != nullptr && clock_.SteadyNow() < valid_until_) {
      return cached_;
    }
    absl::Duration life = absl::InfiniteDuration();
    absl::StatusOr<Credentials> fresh = Fetch(life);
    if (!fresh.ok()) {
      if (cached_ != nullptr && !refused_) {
        return cached_;  // an old token that the server has not refused is better than none
      }
      return fresh.status();
    }
    refused_ = false;
    cached_ = std::make_shared<const Credentials>(*std::move(fresh));
    // The sum with an infinite duration would overflow.
    valid_until_ = clock_.SteadyNow() + std::min(life, absl::Hours(24 * 365));
    return cached_;
  }

  void Refuse() final {
    absl::MutexLock lock(&mutex_);
    refused_ = true;
    valid_until_ = base::SteadyTime();
  }

 protected:
  const base::Clock& clock() const { return clock_; }

 private:
  // Sets `life` to how long the answer may be used.
  virtual absl::StatusOr<Credentials> Fetch(absl::Duration& life) = 0;

  const base::Clock& clock_;
  absl::Mutex mutex_;
  std::shared_ptr<const Credentials> cached_ ABSL_GUARDED_BY(mutex_);
  base::SteadyTime valid_until_ ABSL_GUARDED_BY(mutex_);
  bool refused_ ABSL_GUARDED_BY(mutex_) = false;
};

class FileSource final : public CachingSource {
 public:
  FileSource(const base::Clock& clock, std::string token_path, std::string ca_path)
      : CachingSource(clock), token_path_(std::move(token_path)), ca_path_(std::move(ca_path)) {}

 private:
  absl::StatusOr<Credentials> Fetch(absl::Duration& life) override {
    life = kFileCredentialsLife;
    Credentials credentials;
    ASSIGN_OR_RETURN(credentials.bearer_token, ReadSmallFile(token_path_));
    absl::StripAsciiWhitespace(&credentials.bearer_token);
    if (credentials.bearer_token.empty()) {
      return absl::UnauthenticatedError(fmt::format("token file is empty: {}", token_path_));
    }
    if (!ca_path_.empty()) {
      ASSIGN_OR_RETURN(credentials.ca_pem, ReadSmallFile(ca_path_));
    }
    return credentials;
  }

  const std::string token_path_;
  const std::string ca_path_;
};

class ExecSource final : public CachingSource {
 public:
  ExecSource(const base::Clock& clock, ExecPlugin plugin, ProgramRunner runner)
      : CachingSource(clock), plugin_(std::move(plugin)), runner_(std::move(runner)) {}

 private:
  absl::StatusOr<Credentials> Fetch(absl::Duration& life) override {
    std::string info = fmt::format(
        R"({{"apiVersion":"{}","kind":"ExecCredential","spec":{{"interactive":false{}{}}}}})",
        plugin_.api_version,
        plugin_.cluster_json.empty() ? "" : ",\"cluster\":", plugin_.cluster_json);
    ASSIGN_OR_RETURN(const std::string output, runner_(plugin_, info));
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
      life = *expires - clock().Now();
    }
    return credentials;
  }

  absl::Status Bad(std::string_view what) const {
    return absl::UnauthenticatedError(fmt::format("exec plug-in {}: {}", plugin_.command, what));
  }

  const ExecPlugin plugin_;
  const ProgramRunner runner_;
};

}  // namespace

std::shared_ptr<CredentialSource> FixedCredentials(Credentials credentials) {
  return std::make_shared<FixedSource>(std::move(credentials));
}

std::shared_ptr<CredentialSource> FileCredentials(const base::Clock& clock, std::string token_path,
                                                  std::string ca_path) {
  return std::make_shared<FileSource>(clock, std::move(token_path), std::move(ca_path));
}

std::shared_ptr<CredentialSource> ExecCredentials(const base::Clock& clock, ExecPlugin plugin,
                                                  ProgramRunner runner) {
  return std::make_shared<ExecSource>(clock, std::move(plugin), std::move(runner));
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(fmt::format("cannot read file: {}", path));
  }
  std::string content;
  content.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  if (file.bad()) {
    return absl::NotFoundError(fmt::format("cannot read file: {}", path));
  }
  if (static_cast<std::streamsize>(content.size()) > kMaxFileBytes) {
    return absl::InvalidArgumentError(fmt::format("file is larger than 4 MiB: {}", path));
  }
  return content;
}

}  // namespace asterism::kube
