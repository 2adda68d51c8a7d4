// What filter notes of the single pods that it lets pass.
#include <functional>
#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "scheduler/extender/extender.h"
#include "scheduler/single_pods_in_flight.h"
#include "test/extender/view_builder.h"

namespace asterism::scheduler {
namespace {

using testing::ArgsJson;
using testing::kGpuSlot;
using testing::PaddedBody;
using testing::PodShape;
using testing::ViewBuilder;

// Does something at the moment in which a pod is noted.
class MeddlingClock final : public base::Clock {
 public:
  absl::Time Now() const override { return clock_.Now(); }
  base::SteadyTime SteadyNow() const override {
    if (meddle != nullptr) {
      meddle();
    }
    return clock_.SteadyNow();
  }

  std::function<void()> meddle;

 private:
  base::SimClock clock_;
};

class PodsInFlightTest : public ::testing::Test {
 protected:
  void SetUp() override { cell_.Publish(builder_.Build()); }
  size_t Passed(const PodShape& pod, const std::vector<std::string>& names) {
    std::string answer;
    EXPECT_EQ(extender_.Filter(PaddedBody(ArgsJson(pod, names)).view(), answer), 200);
    return nlohmann::json::parse(answer).at("NodeNames").size();
  }

  base::SimClock clock_;
  MeddlingClock noting_clock_;
  base::MetricRegistry registry_;
  base::SnapshotCell<LedgerView> cell_;
  ViewBuilder builder_{{.supernodes = 1, .nodes_per_supernode = 2}};
  SinglePodsInFlight in_flight_{noting_clock_};
  Extender extender_{clock_,
                     cell_,
                     [] { return ExtenderReadiness::kReady; },
                     registry_,
                     {.gpu_resources = {"nvidia.com/gpu"}, .in_flight = &in_flight_}};
};

TEST_F(PodsInFlightTest, ASinglePodThatPassesIsInFlightUntilItIsSettled) {
  EXPECT_EQ(Passed({.name = "notebook", .gpus = 4}, {"gpu-0-0"}), 1);
  EXPECT_EQ(in_flight_.Any(), "research/notebook");
  in_flight_.Settled("uid-notebook");
  EXPECT_EQ(in_flight_.Any(), "");
}

TEST_F(PodsInFlightTest, OneThatFitsNowhereIsNot) {
  EXPECT_EQ(Passed({.name = "notebook", .gpus = 4}, {"gpu-0-0"}), 1);
  builder_.Use("gpu-0-0", kGpuSlot, 8);
  cell_.Publish(builder_.Build());
  EXPECT_EQ(Passed({.name = "notebook", .gpus = 4}, {"gpu-0-0"}), 0);
  EXPECT_EQ(in_flight_.Any(), "");
}

TEST_F(PodsInFlightTest, PodsOfGangsAndPodsWithoutGpusAreNot) {
  builder_.AddBlock("llama", 0, "gpu-0-1", 1, "");
  cell_.Publish(builder_.Build());
  EXPECT_EQ(Passed({.job_uid = "llama", .ranks = "0-7"}, {"gpu-0-1"}), 1);
  EXPECT_EQ(Passed({.name = "web", .gpus = 0}, {"gpu-0-0"}), 1);
  EXPECT_EQ(in_flight_.Any(), "");
}

// A gang that is placed while the question is looked at is either in the answer, or its operator
// finds the pod in flight.
TEST_F(PodsInFlightTest, TheAnswerIsOfALedgerLoadedAfterThePodWasNoted) {
  noting_clock_.meddle = [this] {
    noting_clock_.meddle = nullptr;
    builder_.AddBlock("llama", 0, "gpu-0-0", 1, "");
    cell_.Publish(builder_.Build());
  };
  EXPECT_EQ(Passed({.name = "notebook", .gpus = 4}, {"gpu-0-0"}), 0);
  EXPECT_EQ(in_flight_.Any(), "") << "it was let pass nowhere";
  noting_clock_.meddle = [this] {
    noting_clock_.meddle = nullptr;
    cell_.Publish(builder_.Build());
  };
  EXPECT_EQ(Passed({.name = "notebook", .gpus = 4}, {"gpu-0-0", "gpu-0-1"}), 1);
  EXPECT_EQ(in_flight_.Any(), "research/notebook");
}

TEST(SinglePodsInFlight, AreForgottenWhenNoBindingCanTakeThatLong) {
  base::SimClock clock;
  SinglePodsInFlight in_flight(clock);
  in_flight.Passed("1", "research/a");
  clock.Advance(SinglePodsInFlight::kLongestBinding);
  EXPECT_EQ(in_flight.Any(), "research/a");
  in_flight.Passed("1", "research/a");
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(in_flight.Any(), "research/a") << "asked about again";
  clock.Advance(SinglePodsInFlight::kLongestBinding);
  EXPECT_EQ(in_flight.Any(), "");
}

// Nobody asks where gangs are never committed directly.
TEST(SinglePodsInFlight, DoNotPileUpWhereNobodyAsks) {
  base::SimClock clock;
  SinglePodsInFlight in_flight(clock);
  for (int i = 0; i < 100'000; ++i) {
    in_flight.Passed(std::to_string(i), "research/a");
    clock.Advance(absl::Seconds(1));
  }
  EXPECT_LE(in_flight.size(), 4096U);
}

}  // namespace
}  // namespace asterism::scheduler
