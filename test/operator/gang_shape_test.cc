#include "operator/gang_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

namespace asterism::operators {
namespace {

std::string Problem(const TrainingJobSpec& spec, NodeGpus nodes = {.commonest = 8, .largest = 8}) {
  const auto shape = ShapeOf(spec, nodes, JobClass::kFinetuning);
  return shape.ok() ? "" : std::string(shape.status().message());
}

TEST(GangShape, DerivesWhatTheSpecLeavesOut) {
  struct Case {
    TrainingJobSpec spec;
    int64_t pods;
    int64_t gpus_per_pod;
    int64_t processes_per_pod;
  };
  const Case cases[] = {
      {{.gpus = 512}, 64, 8, 8},
      {{.gpus = 4}, 1, 4, 4},
      {{.gpus = 16, .gpus_per_pod = 4}, 4, 4, 4},
      {{.gpus = 16, .framework = Framework::kPlain}, 2, 8, 1},
      {{.gpus = 16, .framework = Framework::kPlain, .processes_per_pod = 8}, 2, 8, 8},
      {{.gpus = 16, .processes_per_pod = 2}, 2, 8, 2},
      {{.gpus = 1}, 1, 1, 1},
  };
  for (const Case& c : cases) {
    const auto shape = ShapeOf(c.spec, 8, JobClass::kSearch);
    ASSERT_TRUE(shape.ok()) << shape.status();
    EXPECT_EQ(shape->pods, c.pods);
    EXPECT_EQ(shape->gpus_per_pod, c.gpus_per_pod);
    EXPECT_EQ(shape->processes_per_pod, c.processes_per_pod);
    EXPECT_EQ(shape->ranks(), c.pods * c.processes_per_pod);
    EXPECT_EQ(shape->job_class, JobClass::kSearch);
  }
  const TrainingJobSpec own{.job_class = JobClass::kPretraining, .gpus = 8};
  EXPECT_EQ(ShapeOf(own, 8, JobClass::kSearch)->job_class, JobClass::kPretraining);
}

TEST(GangShape, NamesTheFieldAndTheRemedy) {
  EXPECT_EQ(Problem({.gpus = 100}),
            "spec.gpus: 100 is not a multiple of gpusPerPod (8): use 96 or 104, or set gpusPerPod");
  EXPECT_EQ(Problem({.gpus = 4, .gpus_per_pod = 8}),
            "spec.gpus: 4 is not a multiple of gpusPerPod (8): use 8, or set gpusPerPod");
  EXPECT_EQ(
      Problem({.gpus = 1048575, .gpus_per_pod = 6}, {.commonest = 8}),
      "spec.gpus: 1048575 is not a multiple of gpusPerPod (6): use 1048572, or set gpusPerPod");
  EXPECT_EQ(Problem({.gpus = 16, .gpus_per_pod = 16}),
            "spec.gpusPerPod: 16 is more than a node has (8 nvidia.com/gpu), and a pod never spans "
            "nodes: use at most 8");
  EXPECT_EQ(Problem({.gpus = 16, .min_gpus = 12}),
            "spec.minGpus: 12 is not a multiple of gpusPerPod (8): use 8 or 16");
  EXPECT_EQ(Problem({.gpus = 16, .min_gpus = 24}),
            "spec.minGpus: 24 is more than gpus (16): use at most 16");
  EXPECT_EQ(Problem({.gpus = 16, .processes_per_pod = 3}),
            "spec.processesPerPod: gpusPerPod (8) is not a multiple of 3: use 8 or a number that "
            "divides it");
  EXPECT_EQ(Problem({.gpus = 64, .levels = {{.level = "supernode", .block_gpus = 12}}}),
            "spec.placement.levels[0].blockGpus: 12 is not a multiple of gpusPerPod (8): use a "
            "multiple, or set gpusPerPod");
  EXPECT_EQ(Problem({.gpus = 64, .levels = {{.level = "supernode", .block_gpus = 24}}}),
            "spec.placement.levels[0].blockGpus: gpus (64) is not a multiple of 24: use a number "
            "that divides gpus, or change gpus");
}

TEST(GangShape, WaitsForTheFirstNode) {
  const auto shape = ShapeOf({.gpus = 16}, 0, JobClass::kFinetuning);
  EXPECT_EQ(shape.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(shape.status().message()),
              testing::StartsWith("spec.gpusPerPod: no node with nvidia.com/gpu has joined yet"));
}

TEST(GangShape, APodMayFillALargerNodeThanTheCommonest) {
  EXPECT_EQ(Problem({.gpus = 16, .gpus_per_pod = 16}, {.commonest = 8, .largest = 16}), "");
}

TEST(GangShape, EveryShapeHasTheGpusOfTheJob) {
  EXPECT_TRUE(rc::check([] {
    TrainingJobSpec spec;
    spec.gpus = *rc::gen::inRange<int64_t>(-2, 300);
    if (*rc::gen::arbitrary<bool>()) {
      spec.gpus_per_pod = *rc::gen::inRange<int64_t>(-1, 20);
    }
    if (*rc::gen::arbitrary<bool>()) {
      spec.processes_per_pod = *rc::gen::inRange<int64_t>(-1, 20);
    }
    const auto shape = ShapeOf(spec, *rc::gen::inRange<int64_t>(-1, 17), JobClass::kFinetuning);
    if (shape.ok()) {
      RC_ASSERT(shape->pods * shape->gpus_per_pod == spec.gpus);
      RC_ASSERT(shape->gpus_per_pod % shape->processes_per_pod == 0);
    }
  }));
}

}  // namespace
}  // namespace asterism::operators
