// Compares what a job's pods, service and host file look like with files that people read:
// test/golden/operator/<name>.job.json -> <name>.expected.json. Run with ASTERISM_UPDATE_GOLDEN=1
// to write the files anew, then read the difference.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "nlohmann/json.hpp"
#include "operator/pod_builder.h"
#include "test/operator/job_texts.h"
#include "test/source_tree.h"

namespace asterism::operators {
namespace {

using nlohmann::json;

const std::filesystem::path kFolder =
    std::filesystem::path(asterism::test_paths::SourceTree()) / "test/golden/operator";

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The last pod of the gang: no value of it is a default by chance.
json Objects(const TrainingJob& job) {
  const auto shape = ShapeOf(job.spec, 8, JobClass::kFinetuning);
  CHECK_THAT(shape.ok(), std::string(shape.status().message()));
  const auto builder = PodBuilder::Make(job, *shape, PodSettings{});
  CHECK_THAT(builder.ok(), std::string(builder.status().message()));
  json objects = json::array();
  objects.push_back(
      json::parse(builder->PodBody({.first_rank = (shape->pods - 1) * shape->processes_per_pod,
                                    .node = "gpu-0008",
                                    .epoch = 3,
                                    .domain = "sn-2"})));
  objects.push_back(json::parse(builder->ServiceBody()));
  if (!builder->HostFileBody().empty()) {
    objects.push_back(json::parse(builder->HostFileBody()));
  }
  return objects;
}

TEST(PodGolden, PodsLookAsPromised) {
  int cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".job.json")) {
      continue;
    }
    ++cases;
    const auto job = ParseTrainingJob(ReadFile(entry.path()));
    ASSERT_TRUE(job.ok()) << name << ": " << job.status();
    const std::string text = Objects(*job).dump(2) + "\n";
    const auto expected = kFolder / (name.substr(0, name.size() - std::string(".job.json").size()) +
                                     ".expected.json");
    if (std::getenv("ASTERISM_UPDATE_GOLDEN") != nullptr) {
      std::ofstream(expected) << text;
    }
    EXPECT_EQ(text, ReadFile(expected)) << expected;
  }
  EXPECT_GE(cases, 6);
}

}  // namespace
}  // namespace asterism::operators
