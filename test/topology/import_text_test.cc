// Our own texts of every format (test/golden/topology), and what hostile or broken ones give.

#include "topology/import/import_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/strings.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "test/topology/fabric_generator.h"
#include "topology/import/doctor.h"

namespace asterism::topology {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::StartsWith;
namespace fs = std::filesystem;

std::string FileBytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

std::string RefusalOf(std::string_view text) {
  const absl::StatusOr<Imported> imported = ImportText("bad.txt", text);
  return imported.ok() ? "" : std::string(base::ToStd(imported.status().message()));
}

// With ASTERISM_UPDATE_GOLDEN=1 the diagnoses are written anew; read the difference then.
TEST(ImportText, OurTextsOfEveryFormatGiveTheirDiagnoses) {
  const fs::path folder = fs::path(ASTERISM_SOURCE_DIR) / "test/golden/topology";
  std::vector<fs::path> inputs;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".json" || entry.path().stem().extension() != ".diagnosis") {
      inputs.push_back(entry.path());
    }
  }
  std::sort(inputs.begin(), inputs.end());
  EXPECT_GE(inputs.size(), 20U);
  for (const fs::path& input : inputs) {
    const std::string name = input.filename().string();
    const Diagnosis diagnosis = Examine({{name, FileBytes(input)}});
    const std::string text = DiagnosisJson(diagnosis).dump(1) + "\n";
    const fs::path golden = folder / (name + ".diagnosis.json");
    if (std::getenv("ASTERISM_UPDATE_GOLDEN") != nullptr) {
      std::ofstream(golden) << text;
    }
    EXPECT_EQ(text, FileBytes(golden)) << name;
  }
}

TEST(ImportText, EmptyTextsAreNoEmptyClusters) {
  EXPECT_THAT(RefusalOf(""), HasSubstr("the text is empty"));
  EXPECT_THAT(RefusalOf(" \r\n\t\n"), HasSubstr("the text is empty"));
}

TEST(ImportText, GarbageIsRefusedWithTheKnownFormats) {
  EXPECT_THAT(RefusalOf("hello world\n"), HasSubstr("ibnetdiscover"));
  EXPECT_THAT(RefusalOf(std::string("\0\1\2ELF", 6)), HasSubstr("no text"));
  EXPECT_THAT(RefusalOf("{\"a\": 1}"), HasSubstr("no topology of a known format"));
  EXPECT_THAT(RefusalOf("{\n\"a\": ]"), HasSubstr("line 2: no valid JSON"));
  EXPECT_THAT(RefusalOf("a: [1\nb: }"), HasSubstr("line 2"));
}

TEST(ImportText, WrongXmlNamesTheLine) {
  EXPECT_THAT(RefusalOf("<system>\n<cpu>\n</system>"), StartsWith("bad.txt: line 3: "));
  EXPECT_THAT(RefusalOf("<html></html>"), HasSubstr("the root is <html>"));
  EXPECT_THAT(RefusalOf("<!DOCTYPE a [<!ENTITY b \"c\">]>\n<system version=\"1\">&b;</system>"),
              HasSubstr("entity declarations are not supported"));
  std::string deep;
  for (int i = 0; i < 1000; ++i) {
    deep += "<pci>";
  }
  EXPECT_THAT(RefusalOf("<system>" + deep), HasSubstr("nested deeper than"));
}

TEST(ImportText, OneLineOf100MegabytesIsRefusedQuickly) {
  EXPECT_THAT(RefusalOf(std::string(100'000'000, 'a')), HasSubstr("one line of 100000000 bytes"));
  EXPECT_THAT(RefusalOf("SwitchName=" + std::string(100'000'000, 'a')), HasSubstr("longer than"));
  const std::string fabric = "Switch\t8 \"S-0000000000000001\"\t# \"a\"\n[1]\t\"" +
                             std::string(100'000'000, 'a') + "\"[1]\n";
  const auto imported = ImportText("long", fabric);
  ASSERT_TRUE(imported.ok());
  EXPECT_EQ(imported->outcome, Outcome::kPartial);
  EXPECT_THAT(RefusalOf("{" + std::string(1'000'000, '[')), HasSubstr("line 1"));
  EXPECT_THAT(RefusalOf(std::string(1'000'000, '[')), HasSubstr("line 1"));
}

TEST(ImportText, ADuplicateGuidCostsThatRecordOnly) {
  const GeneratedFabric made = MakeFabric({.groups = 2, .hosts_per_group = 4, .rails = 2}, 1);
  const std::string text = DumpText(made.fabric);
  const auto once = ImportText("once", text);
  const auto twice = ImportText("twice", text + text);
  ASSERT_TRUE(once.ok() && twice.ok());
  EXPECT_EQ(twice->fabric->half_links.size(), once->fabric->half_links.size());
  ASSERT_EQ(twice->note_count, made.fabric.devices.size());
  EXPECT_EQ(twice->notes[0].kind, FindingKind::kDuplicateGuid);
  EXPECT_GT(twice->notes[0].line, 10U);
}

TEST(ImportText, HostileNamesAreOnlyNames) {
  const std::string text =
      "Switch\t8 \"S-0000000000000001\"\t# \"a\" # \"; rm -rf /\x1b[2J\" base port 0\n"
      "[1]\t\"H-0000000000000002\"[1](2)\t# \"h1 mlx5_0\" lid  4xNDR\n";
  const auto imported = ImportText("hostile", text);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(imported->fabric->devices[0].name, StartsWith("a\" # \"; rm -rf /"));
  EXPECT_EQ(imported->fabric->half_links[0].gbps(), 400U);
}

TEST(ImportText, ACycleOfSwitchesIsToldAndTheLeafsStay) {
  const auto imported = ImportText("topology.conf",
                                   "SwitchName=a Switches=b,l1,l2\nSwitchName=b Switches=a,l1,l2\n"
                                   "SwitchName=l1 Nodes=n[1-4]\nSwitchName=l2 Nodes=n[5-8]\n");
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->outcome, Outcome::kPartial);
  EXPECT_EQ(imported->tree->switches.size(), 2U);
  EXPECT_THAT(RefusalOf("SwitchName=a Switches=b\nSwitchName=b Switches=a\n"), HasSubstr("cycle"));
}

TEST(ImportText, HostListsHaveABound) {
  EXPECT_THAT(RefusalOf("SwitchName=a Nodes=n[1-999999999]\n"), HasSubstr("more than"));
  EXPECT_THAT(RefusalOf("SwitchName=a Nodes=n[1-999][1-999][1-999]\n"), HasSubstr("more than"));
  EXPECT_THAT(RefusalOf("SwitchName=a Nodes=n[4-1]\n"), HasSubstr("line 1: host list \"n[4-1]\""));
  EXPECT_THAT(RefusalOf("SwitchName=a Nodes=n[1-4\n"), HasSubstr("a [ is not closed"));
}

TEST(ImportText, GzipIsUnpackedAndCutGzipIsAnError) {
  EXPECT_EQ(*Decompressed("plain"), "plain");
  EXPECT_FALSE(Decompressed(std::string("\x1f\x8b\x08\x00\x00", 5)).ok());
}

TEST(Doctor, TwoTextsThatDisagreeAreAConflict) {
  const auto node = [](std::string_view leaf) {
    return fmt::format(
        "kind: Node\nmetadata: {{name: n1, labels: {{fabric.topograph.run/tier-0: {}}}}}\n", leaf);
  };
  const Diagnosis diagnosis = Examine({{"a.yaml", node("l1")}, {"b.yaml", node("l2")}});
  ASSERT_EQ(diagnosis.findings.size(), 1U);
  EXPECT_EQ(diagnosis.findings[0].finding.kind, FindingKind::kConflict);
  EXPECT_THAT(diagnosis.findings[0].finding.evidence,
              HasSubstr("\"l1\" in a.yaml and \"l2\" in b.yaml"));
}

TEST(Doctor, AnUnreadableTextDoesNotHideTheOthers) {
  const Diagnosis diagnosis =
      Examine({{"missing", absl::NotFoundError("cannot read missing")},
               {"n.yaml", std::string("kind: Node\nmetadata: {name: n1}\n")}});
  EXPECT_TRUE(diagnosis.unreadable);
  EXPECT_THAT(diagnosis.texts[0].error, HasSubstr("cannot read missing"));
  EXPECT_EQ(diagnosis.texts[1].summary["nodes"], 1);
}

TEST(Doctor, EveryKindHasWordsForPeople) {
  for (const FindingDescription& kind : AllFindingKinds()) {
    EXPECT_EQ(&Describe(kind.kind), &kind);
    EXPECT_FALSE(kind.name.empty() || kind.means.empty() || kind.costs.empty() ||
                 kind.remedy.empty())
        << kind.name;
  }
}

}  // namespace
}  // namespace asterism::topology
