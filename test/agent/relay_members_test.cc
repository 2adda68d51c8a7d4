// What a relay carries, without a network.
#include "agent/relay_members.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Urgency = RelayMembers::Urgency;

struct FakeStream final : public MemberStream {
  void ReadNext() override { ++wanted; }
  bool Write(v1::SealedFrame frame) override {
    if (deaf) {
      return false;
    }
    read.push_back(frame.frame());
    return true;
  }
  void End(const absl::Status& status) override { ended = status; }

  int wanted = 1;
  bool deaf = false;
  std::vector<std::string> read;
  absl::Status ended;
};

v1::SealedFrame Frame(uint64_t session, const std::string& text, bool can_wait = false) {
  v1::SealedFrame frame;
  frame.set_session(session);
  frame.set_frame(text);
  frame.set_can_wait(can_wait);
  return frame;
}

std::vector<std::string> TextsOf(const v1::SealedFrames& batch) {
  std::vector<std::string> texts;
  for (const v1::SealedFrame& frame : batch.frames()) {
    texts.push_back(frame.frame());
  }
  return texts;
}

class RelayMembersTest : public ::testing::Test {
 protected:
  RelayMembersTest() { members_.Open(2); }

  std::shared_ptr<FakeStream> Join(uint64_t session, const std::string& text = "hello") {
    auto stream = std::make_shared<FakeStream>();
    members_.OnFrame(stream, Frame(session, text));
    return stream;
  }
  v1::SealedFrames Take() {
    v1::SealedFrames batch;
    members_.Take(batch);
    return batch;
  }

  RelayMembers members_;
};

TEST_F(RelayMembersTest, CarriesFramesUpInTheirOrderAndAnswersToTheirMember) {
  const auto one = Join(1, "a");
  const auto two = Join(2, "b");
  members_.OnFrame(one, Frame(1, "c"));
  EXPECT_THAT(TextsOf(Take()), ElementsAre("a", "b", "c"));
  EXPECT_EQ(members_.urgency(), Urgency::kNothing);
  v1::SealedFrames down;
  *down.add_frames() = Frame(2, "for two");
  *down.add_frames() = Frame(3, "for nobody");
  members_.Deliver(down);
  EXPECT_THAT(one->read, ElementsAre());
  EXPECT_THAT(two->read, ElementsAre("for two"));
}

TEST_F(RelayMembersTest, BeatsWaitForEachOtherAndNothingElseDoes) {
  const auto one = Join(1);
  Take();
  members_.OnFrame(one, Frame(1, "beat", /*can_wait=*/true));
  EXPECT_EQ(members_.urgency(), Urgency::kCanWait);
  members_.OnFrame(one, Frame(1, "news"));
  EXPECT_EQ(members_.urgency(), Urgency::kNow);
  EXPECT_THAT(TextsOf(Take()), ElementsAre("beat", "news"));
}

TEST_F(RelayMembersTest, AMemberWithTwoFramesThatWaitIsReadNoFurther) {
  const auto one = Join(1);
  EXPECT_EQ(one->wanted, 2);
  members_.OnFrame(one, Frame(1, "second"));
  EXPECT_EQ(one->wanted, 2);
  Take();
  EXPECT_EQ(one->wanted, 3);
}

TEST_F(RelayMembersTest, ABatchHasABoundAndTheRestComesNext) {
  const std::string large(RelayMembers::kBatchBytes - 10, 'x');
  const auto one = Join(1, large);
  members_.OnFrame(one, Frame(1, std::string(11, 'y')));
  EXPECT_EQ(Take().frames_size(), 1);
  EXPECT_EQ(members_.urgency(), Urgency::kNow);
  EXPECT_EQ(Take().frames_size(), 1);
  // One that is larger than a batch goes alone.
  members_.OnFrame(one, Frame(1, large + large));
  EXPECT_EQ(Take().frames_size(), 1);
}

TEST_F(RelayMembersTest, WhatAMemberSaidBeforeItWentComesBeforeItsEnd) {
  const auto one = Join(1, "last words");
  members_.OnEnd(one);
  const v1::SealedFrames batch = Take();
  EXPECT_THAT(TextsOf(batch), ElementsAre("last words"));
  EXPECT_THAT(batch.ended(), ElementsAre(1U));
  EXPECT_EQ(members_.size(), 0U);
}

TEST_F(RelayMembersTest, TooManyTheSameSessionAnotherSessionAndNoneAreSentAway) {
  const auto one = Join(1);
  EXPECT_THAT(std::string(Join(0)->ended.message()), HasSubstr("session: is missing"));
  EXPECT_EQ(Join(1)->ended.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(one->ended.ok());
  const auto two = Join(2);
  EXPECT_EQ(Join(3)->ended.code(), absl::StatusCode::kResourceExhausted);
  members_.OnFrame(two, Frame(1, "of another"));
  EXPECT_EQ(two->ended.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(TextsOf(Take()), ElementsAre("hello", "hello"));
}

TEST_F(RelayMembersTest, ThoseWhoComeAndGoPileUpNothing) {
  for (uint64_t session = 1; session < 100; ++session) {
    members_.OnEnd(Join(session));
  }
  const v1::SealedFrames batch = Take();
  EXPECT_LE(batch.frames_size() + batch.ended_size(), 4 * 2 + 1);
}

TEST_F(RelayMembersTest, WhoDoesNotReadAndWhoIsSentAwayByTheController) {
  const auto one = Join(1);
  const auto two = Join(2);
  one->deaf = true;
  v1::SealedFrames down;
  *down.add_frames() = Frame(1, "x");
  down.add_ended(2);
  members_.Deliver(down);
  EXPECT_EQ(one->ended.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(two->ended.code(), absl::StatusCode::kAborted);
}

TEST_F(RelayMembersTest, WithoutAControllerAllAreToldAndNobodyJoins) {
  const auto one = Join(1);
  members_.EndAll(absl::UnavailableError("the relay has lost the controller"));
  EXPECT_EQ(one->ended.code(), absl::StatusCode::kUnavailable);
  members_.OnEnd(one);
  EXPECT_EQ(members_.urgency(), Urgency::kNothing);
  EXPECT_EQ(Join(2)->ended.code(), absl::StatusCode::kUnavailable);
  members_.Open(2);
  EXPECT_TRUE(Join(2)->ended.ok());
}

}  // namespace
}  // namespace asterism::agent
