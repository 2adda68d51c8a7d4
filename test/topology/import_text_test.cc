// Our own texts of every format (test/golden/topology), and what hostile or broken ones give.

#include "topology/import/import_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/rng.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "test/source_tree.h"
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
  const fs::path folder = fs::path(asterism::test_paths::SourceTree()) / "test/golden/topology";
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

TEST(ImportText, DocumentsWithoutEndAreRefused) {
  // yaml-cpp 0.7 tells empty documents for ever at a comma that belongs to nothing.
  for (const char* text : {",=", "-,=", "kind: List\n---\n,=\n", ","}) {
    EXPECT_FALSE(ImportText("x.yaml", text).ok()) << text;
  }
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

TEST(ImportText, ListsOfTheApiServerDoNotRepeatTheirKind) {
  const auto imported = ImportText(
      "nodes.json",
      R"({"kind": "NodeList", "items": [{"metadata": {"name": "n1", "labels": {"nvidia.com/gpu.count": "8"}}}]})");
  ASSERT_TRUE(imported.ok()) << imported.status();
  ASSERT_EQ(imported->nodes.size(), 1U);
  EXPECT_EQ(imported->nodes[0].gpu_count, 8);
}

TEST(ImportText, APromptBeforeAnAnswerIsNoDamage) {
  const auto imported =
      ImportText("aws",
                 "$ aws ec2 describe-instance-topology\n{\"Instances\": [{\"InstanceId\": \"i-1\", "
                 "\"NetworkNodes\": [\"a\", \"b\"]}]}\n");
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->outcome, Outcome::kOk);
  EXPECT_EQ(imported->nodes[0].levels[0].value, "b");  // the innermost first
}

TEST(ImportText, ElidedObjectsAreTakenInPart) {
  const auto imported =
      ImportText("page.txt",
                 "$ kubectl get nodes -o yaml\napiVersion: v1\nitems:\n- kind: Node\n"
                 "  metadata:\n    ...\n\n    name: n1\n    labels:\n"
                 "      nvidia.com/gpu.count: \"2\"\n      ...\n...\n");
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->outcome, Outcome::kPartial);
  EXPECT_EQ(imported->nodes[0].gpu_count, 2);
}

TEST(ImportText, ChassisNumbersAndContinuedLines) {
  const auto fabric =
      ImportText("chassis",
                 "Switch\t36 \"S-0000000000000001\"\t# \"a\" base port 0\n"
                 "[1][ext 19]\t\"S-0000000000000002\"[7][ext 3]\t# \"b\" lid 3 4xQDR\n");
  ASSERT_TRUE(fabric.ok()) << fabric.status();
  ASSERT_EQ(fabric->fabric->half_links.size(), 1U);
  EXPECT_EQ(fabric->fabric->half_links[0].peer_port, 7);
  EXPECT_EQ(fabric->fabric->half_links[0].gbps(), 40U);
  const auto slurm = ImportText("t.conf", "SwitchName=s Nodes=a1,\\\na2\nSwitchName=t Nodes=b\n");
  ASSERT_TRUE(slurm.ok()) << slurm.status();
  EXPECT_EQ(slurm->tree->switches[0].nodes.size(), 2U);
}

// Six GPUs in pairs and two cards, as the tool prints it.
std::string MatrixText(std::string_view prefix) {
  std::string text =
      std::string(prefix) + "\tGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tNIC0\tNIC1\tCPU Affinity\n";
  for (int row = 0; row < 6; ++row) {
    text += fmt::format("{}GPU{}", prefix, row);
    for (int column = 0; column < 6; ++column) {
      text += row == column ? "\t X " : row / 2 == column / 2 ? "\tNV4" : "\tSYS";
    }
    text += row < 3 ? "\tPIX\tSYS\t0-15\n" : "\tSYS\tPIX\t16-31\n";
  }
  return text;
}

TEST(ImportText, AMatrixIsTheSameHoweverItWasCopied) {
  const auto plain = ImportText("m", MatrixText(""));
  ASSERT_TRUE(plain.ok()) << plain.status();
  ordered_json expected = SummaryOf(*plain, {});
  EXPECT_EQ(expected["nvlink_islands"].size(), 3U);
  for (const std::string_view prefix : {"> ", "3: ", "[1,0]<stdout>:", "| ", "    "}) {
    const auto copied = ImportText("m", MatrixText(prefix));
    ASSERT_TRUE(copied.ok()) << prefix << copied.status();
    EXPECT_EQ(SummaryOf(*copied, {}), expected) << prefix;
  }
  for (const std::string_view prompt :
       {"[root@gpu-7 ~]# nvidia-smi topo -m\n", "$ x\n", "\xef\xbb\xbf", "\n\n", "```\n",
        "Mon Mar  2 04:11:07 2026\n"}) {
    const auto copied = ImportText("m", std::string(prompt) + MatrixText("") + "```\n$ exit\n");
    ASSERT_TRUE(copied.ok()) << prompt << copied.status();
    EXPECT_EQ(SummaryOf(*copied, {}), expected) << prompt;
  }
  // Blanks instead of tabs, and terminals of every width that holds the header's first words.
  std::string blanks;
  for (const char letter : MatrixText("")) {
    blanks += letter == '\t' ? "     " : std::string(1, letter);
  }
  for (size_t width = 24; width < 90; ++width) {
    std::string wrapped;
    size_t column = 0;
    for (const char letter : blanks) {
      if (letter != '\n' && column == width) {
        wrapped += '\n';
        column = 0;
      }
      wrapped += letter;
      column = letter == '\n' ? 0 : column + 1;
    }
    const auto narrow = ImportText("m", wrapped);
    // A break may fall so that nobody can tell what stood there; then it is refused, never guessed.
    if (narrow.ok()) {
      EXPECT_EQ(SummaryOf(*narrow, {})["nvlink_islands"], expected["nvlink_islands"]) << wrapped;
      EXPECT_EQ(SummaryOf(*narrow, {})["gpus"], 6) << wrapped;
    }
  }
}

// Bytes that are lost, repeated, swapped or foreign anywhere in our own texts, or in those below
// $ASTERISM_TOPOLOGY_DATA.
TEST(ImportText, DamagedTextsAreReadInPartOrRefused) {
  const char* given = std::getenv("ASTERISM_MUTATIONS");
  const int mutations = given == nullptr ? 40 : std::atoi(given);
  base::Rng rng(20260301);
  const char* folder = std::getenv("ASTERISM_TOPOLOGY_DATA");
  const fs::path texts =
      folder != nullptr ? fs::path(folder)
                        : fs::path(asterism::test_paths::SourceTree()) / "test/golden/topology";
  for (const auto& entry : fs::recursive_directory_iterator(texts)) {
    const std::string text = entry.is_regular_file() ? FileBytes(entry.path()) : "";
    for (int i = 0; i < mutations && !text.empty(); ++i) {
      std::string damaged = text;
      for (uint64_t change = rng.Below(4) + 1; change > 0 && !damaged.empty(); --change) {
        const size_t at = rng.Below(damaged.size());
        const size_t length = std::min<size_t>(rng.Below(40) + 1, damaged.size() - at);
        switch (rng.Below(4)) {
          case 0:
            damaged.erase(at, length);
            break;
          case 1:
            damaged.insert(at, damaged.substr(rng.Below(damaged.size()), length));
            break;
          case 2:
            damaged[at] = static_cast<char>(rng.Below(256));
            break;
          default:
            damaged.replace(at, length, "4294967296");
        }
      }
      const Diagnosis diagnosis = Examine({{"damaged", damaged}});
      EXPECT_EQ(diagnosis.unreadable, !diagnosis.texts[0].error.empty());
      (void)DiagnosisJson(diagnosis).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    }
  }
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
  EXPECT_THAT(diagnosis.texts[0].error, StartsWith("missing"));
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
