#include "controller/call_admission.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::controller {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const Caller> CallerWithKey(const std::string& key) {
  auto caller = std::make_shared<Caller>();
  caller->key = key;
  return caller;
}

class CallAdmissionTest : public ::testing::Test {
 protected:
  base::SimClock clock_;
  base::MetricRegistry registry_;
  CallAdmission admission_{clock_,
                           registry_,
                           {.calls_max = 4,
                            .calls_per_caller_max = 2,
                            .streams_max = 2,
                            .streams_per_caller_max = 1,
                            .bytes_max = 1000,
                            .bytes_per_caller_max = 400}};
};

TEST_F(CallAdmissionTest, TheRoomIsFreeWhenTheLastOneWhoWorksForTheCallLetsGo) {
  std::vector<std::shared_ptr<AdmittedCall>> calls;
  for (int i = 0; i < 4; ++i) {
    calls.push_back(*admission_.Admit(CallKind::kUnary, 1));
  }
  const auto full = admission_.Admit(CallKind::kUnary, 1);
  EXPECT_TRUE(absl::IsResourceExhausted(full.status()));
  EXPECT_TRUE(admission_.Admit(CallKind::kStream, 1).ok()) << "streams have room of their own";
  std::shared_ptr<AdmittedCall> work = calls.back();
  calls.back()->Drop();
  calls.pop_back();
  EXPECT_FALSE(work->wanted());
  EXPECT_FALSE(admission_.Admit(CallKind::kUnary, 1).ok()) << "it has ended, its work has not";
  work.reset();
  EXPECT_TRUE(admission_.Admit(CallKind::kUnary, 1).ok());
}

TEST_F(CallAdmissionTest, BytesAreBounded) {
  const auto large = admission_.Admit(CallKind::kUnary, 900);
  ASSERT_TRUE(large.ok());
  const auto more = admission_.Admit(CallKind::kUnary, 101);
  EXPECT_THAT(std::string(more.status().message()), HasSubstr("1000 bytes of requests"));
  EXPECT_TRUE(admission_.Admit(CallKind::kUnary, 100).ok());
  EXPECT_FALSE((*large)->BelongTo(CallerWithKey("a")).ok()) << "more than one caller may send";
}

TEST_F(CallAdmissionTest, OneCallerLeavesRoomForOthers) {
  std::vector<std::shared_ptr<AdmittedCall>> calls;
  for (int i = 0; i < 2; ++i) {
    calls.push_back(*admission_.Admit(CallKind::kUnary, 1));
    EXPECT_TRUE(calls.back()->BelongTo(CallerWithKey("a")).ok());
    EXPECT_TRUE(calls.back()->BelongTo(CallerWithKey("a")).ok()) << "again takes nothing";
  }
  const auto third = admission_.Admit(CallKind::kUnary, 1);
  const absl::Status refused = (*third)->BelongTo(CallerWithKey("a"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("2 calls for one caller"));
  EXPECT_TRUE((*third)->BelongTo(CallerWithKey("b")).ok());
  EXPECT_TRUE((*third)->BelongTo(CallerWithKey("c")).ok());
  const auto fourth = admission_.Admit(CallKind::kUnary, 1);
  EXPECT_TRUE((*fourth)->BelongTo(CallerWithKey("b")).ok());
  calls.clear();
  EXPECT_TRUE((*fourth)->BelongTo(CallerWithKey("a")).ok());
}

TEST_F(CallAdmissionTest, ACallMayOutliveTheAdmission) {
  base::MetricRegistry registry;
  auto admission = std::make_unique<CallAdmission>(clock_, registry, CallAdmissionOptions{});
  const auto call = *admission->Admit(CallKind::kStream, 1);
  admission.reset();
  EXPECT_TRUE(call->BelongTo(CallerWithKey("a")).ok());
}

}  // namespace
}  // namespace asterism::controller
