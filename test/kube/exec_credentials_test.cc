#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "fmt/format.h"
#include "kube/credentials.h"

namespace asterism::kube {
namespace {

using ::testing::HasSubstr;

std::string AnswerWith(const std::string& status) {
  return fmt::format(
      R"({{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{}}})",
      status);
}

// A plug-in that answers when the test says so; each token lasts ten minutes.
class ExecCredentialsTest : public ::testing::Test {
 protected:
  ExecCredentialsTest()
      : source_(ExecCredentials(clock_,
                                {.command = "p", .api_version = "client.authentication.k8s.io/v1"},
                                [this](const ExecPlugin&, const std::string&,
                                       const std::atomic<bool>&) { return Run(); })) {}
  ~ExecCredentialsTest() override { Hold(false); }

  void Hold(bool held) {
    absl::MutexLock lock(&mutex_);
    held_ = held;
    changed_.SignalAll();
  }
  void Fail(bool fail) {
    absl::MutexLock lock(&mutex_);
    fail_ = fail;
  }
  int runs() const {
    absl::MutexLock lock(&mutex_);
    return runs_;
  }
  // Waits until the plug-in has begun its `count`th run.
  void AwaitRuns(int count) {
    absl::MutexLock lock(&mutex_);
    while (runs_ < count) {
      changed_.Wait(&mutex_);
    }
  }
  // The token, or the message of the error.
  std::string Token() {
    const absl::StatusOr<CredentialsPtr> credentials = WaitForCredentials(*source_);
    return credentials.ok() ? (*credentials)->bearer_token
                            : std::string(credentials.status().message());
  }
  // What is there without waiting; "-": nothing.
  std::string TokenNow() {
    auto token = std::make_shared<std::pair<absl::Mutex, std::string>>();
    token->second = "-";
    source_->Get([token](absl::StatusOr<CredentialsPtr> credentials) {
      absl::MutexLock lock(&token->first);
      token->second = credentials.ok() ? (*credentials)->bearer_token : "error";
    });
    absl::MutexLock lock(&token->first);
    return token->second;
  }

  base::SimClock clock_;

 private:
  absl::StatusOr<std::string> Run() {
    absl::MutexLock lock(&mutex_);
    const int run = ++runs_;
    changed_.SignalAll();
    while (held_) {
      changed_.Wait(&mutex_);
    }
    if (fail_) {
      return absl::UnauthenticatedError(fmt::format("run {} failed", run));
    }
    return AnswerWith(
        fmt::format(R"({{"token":"token-{}","expirationTimestamp":"{}"}})", run,
                    absl::FormatTime("%Y-%m-%d%ET%H:%M:%SZ", clock_.Now() + absl::Minutes(10),
                                     absl::UTCTimeZone())));
  }

  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  bool fail_ ABSL_GUARDED_BY(mutex_) = false;
  int runs_ ABSL_GUARDED_BY(mutex_) = 0;

 protected:
  const std::shared_ptr<CredentialSource> source_;
};

TEST_F(ExecCredentialsTest, NobodyIsHeldUpWhileItRuns) {
  Hold(true);
  EXPECT_EQ(TokenNow(), "-");
  absl::Notification answered;
  source_->Get([&](absl::StatusOr<CredentialsPtr> credentials) {
    EXPECT_EQ((*credentials)->bearer_token, "token-1");
    answered.Notify();
  });
  Hold(false);
  answered.WaitForNotification();
  EXPECT_EQ(runs(), 1);
}

TEST_F(ExecCredentialsTest, TheOldTokenServesWhileANewOneIsFetched) {
  EXPECT_EQ(Token(), "token-1");
  clock_.Advance(absl::Minutes(7));
  EXPECT_EQ(TokenNow(), "token-1");
  EXPECT_EQ(runs(), 1);
  clock_.Advance(absl::Minutes(2));
  Hold(true);
  EXPECT_EQ(TokenNow(), "token-1");
  AwaitRuns(2);
  EXPECT_EQ(TokenNow(), "token-1");
  clock_.Advance(absl::Minutes(2));  // it has ended
  EXPECT_EQ(TokenNow(), "-");
  Hold(false);
  EXPECT_EQ(Token(), "token-2");
  EXPECT_EQ(runs(), 2);
}

TEST_F(ExecCredentialsTest, AFailingPluginRunsAgainOnlyAfterAPause) {
  Fail(true);
  EXPECT_EQ(Token(), "run 1 failed");
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(Token(), "run 1 failed");
  }
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Token(), "run 2 failed");
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Token(), "run 2 failed");
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Token(), "run 3 failed");
  Fail(false);
  clock_.Advance(absl::Seconds(30));
  EXPECT_EQ(Token(), "token-4");
}

TEST_F(ExecCredentialsTest, AnOldTokenIsBetterThanNoneUnlessRefused) {
  EXPECT_EQ(Token(), "token-1");
  Fail(true);
  clock_.Advance(absl::Minutes(11));
  EXPECT_EQ(Token(), "token-1");
  EXPECT_EQ(runs(), 2);
  source_->Refuse(WaitForCredentials(*source_).value());
  EXPECT_THAT(Token(), HasSubstr("refuses"));
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(Token(), "run 3 failed");
}

TEST_F(ExecCredentialsTest, OnlyTheLatestCanBeRefused) {
  const CredentialsPtr first = WaitForCredentials(*source_).value();
  clock_.Advance(absl::Seconds(2));
  source_->Refuse(first);
  EXPECT_EQ(Token(), "token-2");
  clock_.Advance(absl::Seconds(2));
  source_->Refuse(first);  // an answer that was long on its way
  EXPECT_EQ(Token(), "token-2");
}

TEST(ExecCredentials, ItsEndEndsThePlugin) {
  base::SimClock clock;
  absl::Notification began;
  auto source = ExecCredentials(
      clock, {.command = "p"},
      [&](const ExecPlugin&, const std::string&, const std::atomic<bool>& cancelled) {
        began.Notify();
        return RunProgram({.command = "sleep", .args = {"60"}}, "{}", cancelled);
      });
  source->Get([](auto) {});
  began.WaitForNotification();
  const base::SteadyTime start = base::SystemClock().SteadyNow();
  source.reset();
  EXPECT_LT(base::SystemClock().SteadyNow() - start, absl::Seconds(20));
}

TEST(ExecCredentials, AnswersAreChecked) {
  base::SimClock clock;
  const ExecPlugin plugin{.command = "p", .api_version = "client.authentication.k8s.io/v1"};
  const auto get = [&](const std::string& answer) {
    return WaitForCredentials(*ExecCredentials(
        clock, plugin, [&](const ExecPlugin&, const std::string&, const std::atomic<bool>&) {
          return absl::StatusOr<std::string>(answer);
        }));
  };
  EXPECT_TRUE(get(AnswerWith(R"({"token":"t"})")).ok());
  EXPECT_TRUE(get(AnswerWith(R"({"clientCertificateData":"c","clientKeyData":"k"})")).ok());
  for (const std::string& bad :
       {std::string("no json"), std::string("{}"), AnswerWith("{}"),
        AnswerWith(R"({"clientKeyData":"k"})"), AnswerWith(R"({"token":5})"),
        AnswerWith(R"({"token":"t","expirationTimestamp":"soon"})")}) {
    const auto credentials = get(bad);
    ASSERT_FALSE(credentials.ok()) << bad;
    EXPECT_THAT(std::string(credentials.status().message()), HasSubstr("exec plug-in p"));
  }
}

TEST(ExecCredentials, AMissingProgramShowsTheInstallHint) {
  const std::atomic<bool> cancelled = false;
  const absl::StatusOr<std::string> output =
      RunProgram({.command = "/nonexistent/plugin", .install_hint = "Install it from the shop."},
                 "{}", cancelled);
  ASSERT_FALSE(output.ok());
  EXPECT_THAT(std::string(output.status().message()), HasSubstr("Install it from the shop."));
  EXPECT_FALSE(RunProgram({.command = "false"}, "{}", cancelled).ok());
}

}  // namespace
}  // namespace asterism::kube
