#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "base/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::base {
namespace {

using Reply = absl::AnyInvocable<void(std::unique_ptr<std::string>, int)>;

// What a client of an asynchronous service looks like.
class Listener {
 public:
  explicit Listener(std::vector<std::string>& heard) : heard_(heard) {}

  Work OnEvent() {
    return alive_.Wrap([this] { heard_.push_back("event"); });
  }
  Reply OnReply() {
    return alive_.Wrap([this](std::unique_ptr<std::string> reply, int code) {
      heard_.push_back(*reply + " " + std::to_string(code));
    });
  }

 private:
  std::vector<std::string>& heard_;
  Alive alive_;
};

TEST(Alive, WorkRunsWhileTheObjectLives) {
  std::vector<std::string> heard;
  Listener listener(heard);
  Work work = listener.OnEvent();
  work();
  work();
  EXPECT_THAT(heard, testing::ElementsAre("event", "event"));
}

TEST(Alive, WorkOfADeadObjectDoesNothing) {
  std::vector<std::string> heard;
  auto listener = std::make_unique<Listener>(heard);
  Work event = listener->OnEvent();
  Reply reply = listener->OnReply();
  listener.reset();
  event();
  reply(std::make_unique<std::string>("late"), 200);
  EXPECT_TRUE(heard.empty());
}

TEST(Alive, ArgumentsAreForwardedWithoutACopy) {
  std::vector<std::string> heard;
  Listener listener(heard);
  listener.OnReply()(std::make_unique<std::string>("ok"), 201);
  EXPECT_THAT(heard, testing::ElementsAre("ok 201"));
}

TEST(Alive, WrappedWorkMayEndItsOwner) {
  struct Owner {
    Alive alive;
  };
  auto owner = std::make_unique<Owner>();
  Work work = owner->alive.Wrap([&owner] { owner.reset(); });
  work();
  EXPECT_EQ(owner, nullptr);
  work();
}

}  // namespace
}  // namespace asterism::base
