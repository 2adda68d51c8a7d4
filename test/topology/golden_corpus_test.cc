// Reads every text of a folder of topology inputs and compares what was understood with the goldens
// beside them: DIR/KIND/expected.json, keyed by file name, with fields of the import's summary.
// DIR is $ASTERISM_TOPOLOGY_DATA, or ../shared/data/topology.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "base/strings.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "test/source_tree.h"
#include "topology/import/doctor.h"
#include "topology/import/import_text.h"

namespace asterism::topology {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::string CorpusFolder() {
  const char* given = std::getenv("ASTERISM_TOPOLOGY_DATA");
  return given != nullptr ? given : asterism::test_paths::SharedTree() + "/data/topology";
}

std::string Bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

absl::StatusOr<Imported> ImportFile(const fs::path& path) {
  const absl::StatusOr<std::string> text = Decompressed(Bytes(path));
  return text.ok() ? ImportText(path.filename().string(), *text) : text.status();
}

// Fields that are words for people, or about the reading itself.
const std::set<std::string> kProse = {"why",         "note",      "warnings",
                                      "schema_only", "join_with", "reasons"};

// Names of one fact that differ from ours, or that another text is needed for.
std::string FieldName(const std::string& field) {
  static const std::map<std::string, std::string> others = {
      {"expected_leaf_group_sizes", "leaf_group_sizes"}, {"expected_nodes", "joined_nodes"}};
  const auto it = others.find(field);
  return it == others.end() ? field : it->second;
}

// What the two naive rules of grouping give is compared in leaf_groups_test.
const std::set<std::string> kElsewhere = {"exact_signature_groups", "union_by_shared_host_groups"};

GuidOwners OwnersBeside(const fs::path& folder, const std::string& file) {
  // An operator's list belongs to the dump whose number it begins with: 10a beside 10.
  GuidOwners owners;
  const std::string number = file.substr(0, file.find('-'));
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(number) && name.size() > number.size() &&
        std::isalpha(name[number.size()])) {
      const absl::StatusOr<Imported> list = ImportFile(entry.path());
      if (list.ok()) {
        owners.insert(list->owners.begin(), list->owners.end());
      }
    }
  }
  return owners;
}

// Words of the reason that the message must hold.
void ExpectReasons(const json& golden, const std::string& message) {
  if (golden.contains("reasons")) {
    for (const auto& reason : golden["reasons"]) {
      EXPECT_THAT(message, ::testing::HasSubstr(reason.get<std::string>()));
    }
  }
}

void CompareFile(const fs::path& folder, const std::string& file, const json& golden) {
  SCOPED_TRACE(folder.filename().string() + "/" + file);
  const absl::StatusOr<Imported> imported = ImportFile(folder / file);
  const std::string status = golden.value("status", "ok");
  if (status == "reject") {
    ASSERT_FALSE(imported.ok()) << "it should be refused";
    ExpectReasons(golden, std::string(base::ToStd(imported.status().message())));
    return;
  }
  ASSERT_TRUE(imported.ok()) << imported.status();
  const json summary = SummaryOf(*imported, OwnersBeside(folder, file));
  for (const auto& [field, expected] : golden.items()) {
    if (kProse.contains(field) || kElsewhere.contains(field)) {
      continue;
    }
    const std::string name = FieldName(field);
    if (!summary.contains(name)) {
      ADD_FAILURE() << "the summary has no field " << name << " (expected " << expected.dump()
                    << ")";
      continue;
    }
    EXPECT_EQ(summary[name].dump(), expected.dump()) << name;
  }
  if (status == "partial" || (golden.contains("warnings") && !golden["warnings"].empty())) {
    EXPECT_TRUE(imported->note_count > 0 || !summary.value("findings", json::object()).empty() ||
                summary.value("lone_ports", 0) > 0)
        << "a warning is expected: " << golden.value("warnings", json::array()).dump();
  }
  if (golden.contains("warnings") && golden["warnings"].empty()) {
    EXPECT_EQ(imported->note_count, 0U);
    EXPECT_THAT(summary.value("findings", json::object()), ::testing::IsEmpty());
  }
}

TEST(GoldenCorpus, EveryTextMeansWhatItsGoldenSays) {
  const fs::path corpus = CorpusFolder();
  if (!fs::is_directory(corpus)) {
    GTEST_SKIP() << "there is no " << corpus
                 << ": set ASTERISM_TOPOLOGY_DATA to a folder of inputs";
  }
  size_t compared = 0;
  for (const auto& entry : fs::directory_iterator(corpus)) {
    const fs::path goldens = entry.path() / "expected.json";
    if (!fs::exists(goldens)) {
      continue;
    }
    const json expected = json::parse(Bytes(goldens));
    for (const auto& [file, golden] : expected.items()) {
      CompareFile(entry.path(), file, golden);
      ++compared;
    }
  }
  EXPECT_GT(compared, 0U);
  RecordProperty("compared", static_cast<int>(compared));
}

// What is known to be wrong in some of the fabrics, and nothing else.
TEST(GoldenCorpus, TheDoctorFindsExactlyWhatIsKnown) {
  const fs::path folder = fs::path(CorpusFolder()) / "ib";
  if (!fs::is_directory(folder)) {
    GTEST_SKIP() << "there is no " << folder;
  }
  const std::map<std::string, std::map<std::string, int>> known = {
      {"01-ndr-gpu-31leaf-9spine-582ca.ibnetdiscover.gz",
       {{"absent-rail-leaf", 1},
        {"short-leaf", 12},
        {"crossed-rails", 1},
        {"nameless-hca", 1},
        {"non-compute-on-leaf", 3}}},
      {"own-21-clean-4group-8host-4rail.ibnetdiscover", {}},
      {"own-22-hdr-3tier-3group-4rail-mgmt-on-spine.ibnetdiscover",
       {{"crossed-rails", 1}, {"short-leaf", 1}, {"management-on-spine", 3}}},
      {"own-27-hdr-10group-missing-crossed-foreign-cables.ibnetdiscover",
       {{"crossed-rails", 2}, {"foreign-cable", 4}, {"missing-port", 5}}},
      {"own-28-ndr-dual-plane-2group-8host-4nic-2port.ibnetdiscover", {{"plane-lost", 1}}},
      {"own-29-two-fabrics-same-switch-names.ibnetdiscover", {}}};
  for (const auto& [file, expected] : known) {
    if (!fs::exists(folder / file)) {
      continue;
    }
    const Diagnosis diagnosis = Examine({{file, Bytes(folder / file)}});
    std::map<std::string, int> found;
    for (const SourcedFinding& each : diagnosis.findings) {
      ++found[std::string(FindingName(each.finding.kind))];
    }
    EXPECT_EQ(found, expected) << file;
  }
}

TEST(GoldenCorpus, EveryTextIsReadOrRefusedWithItsNameALineAndAReason) {
  const fs::path corpus = CorpusFolder();
  if (!fs::is_directory(corpus)) {
    GTEST_SKIP() << "there is no " << corpus;
  }
  for (const auto& entry : fs::recursive_directory_iterator(corpus)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || name == "expected.json" || name == "INDEX.md") {
      continue;
    }
    const absl::StatusOr<Imported> imported = ImportFile(entry.path());
    if (!imported.ok()) {
      const std::string message(base::ToStd(imported.status().message()));
      EXPECT_THAT(message, ::testing::StartsWith(name + ": ")) << message;
      EXPECT_GT(message.size(), name.size() + 10) << message;
    }
  }
}

// Every prefix of the small texts, and every tenth of a thousand cuts of the others.
TEST(GoldenCorpus, EveryPrefixIsSurvived) {
  const fs::path corpus = CorpusFolder();
  if (!fs::is_directory(corpus)) {
    GTEST_SKIP() << "there is no " << corpus;
  }
  for (const auto& entry : fs::recursive_directory_iterator(corpus)) {
    if (!entry.is_regular_file() || entry.path().filename() == "expected.json") {
      continue;
    }
    const std::string text = Bytes(entry.path());
    const size_t step = std::max<size_t>(1, text.size() / 60);
    for (size_t end = 0; end < text.size(); end += step) {
      const absl::StatusOr<Imported> imported = ImportText("cut", text.substr(0, end));
      if (imported.ok()) {
        EXPECT_TRUE(SummaryOf(*imported, {}).contains("status"));
      }
    }
  }
}

}  // namespace
}  // namespace asterism::topology
