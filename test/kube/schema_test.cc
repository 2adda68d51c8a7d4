// Our pruned protocol files against the upstream ones of the Go module cache: every message, field,
// number and type that we have must be theirs.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "test/source_tree.h"

namespace asterism::kube {
namespace {

// "Pod.metadata" -> "optional ObjectMeta 1". Packages are dropped from type names.
using Fields = std::map<std::string, std::string>;

std::string LastPart(const std::string& type) {
  const size_t dot = type.rfind('.');
  return dot == std::string::npos ? type : type.substr(dot + 1);
}

// "map<string, .a.b.Quantity>" -> "map<string,Quantity>", ".a.b.Time" -> "Time".
std::string Squeezed(const std::string& type) {
  const size_t comma = type.find(',');
  if (comma == std::string::npos) {
    return LastPart(type);
  }
  return type.substr(0, comma) + "," + LastPart(type.substr(comma + 1));
}

// "  repeated Container containers = 2;" into name and shape.
void ReadField(const std::string& message, const std::string& line, Fields& fields) {
  const size_t equals = line.find(" = ");
  const size_t end = line.find(';');
  if (line.find("//") != std::string::npos || equals == std::string::npos ||
      end == std::string::npos || end < equals) {
    return;
  }
  std::vector<std::string> words = absl::StrSplit(line.substr(0, equals), ' ', absl::SkipEmpty());
  if (words.size() < 2) {
    return;
  }
  const std::string name = words.back();
  words.pop_back();
  const bool labelled = words[0] == "optional" || words[0] == "repeated";
  std::string type;
  for (size_t i = labelled ? 1 : 0; i < words.size(); ++i) {
    type += words[i];
  }
  fields[message + "." + name] = (labelled ? words[0] : "") + " " + Squeezed(type) + " " +
                                 line.substr(equals + 3, end - equals - 3);
}

Fields ReadProto(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  Fields fields;
  std::string current;
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("message ")) {
      current = line.substr(8, line.find(' ', 8) - 8);
    } else if (line.starts_with("  ")) {
      ReadField(current, line, fields);
    }
  }
  return fields;
}

TEST(Schema, IsPartOfUpstream) {
  const char* root = std::getenv("GOMODCACHE");
  const char* home = std::getenv("HOME");
  const std::string cache =
      root != nullptr ? root : std::string(home == nullptr ? "" : home) + "/go/pkg/mod";
  const std::string api = cache + "/k8s.io/api@v0.37.2/";
  const std::string machinery = cache + "/k8s.io/apimachinery@v0.37.2/pkg/";
  if (!std::filesystem::exists(api) || !std::filesystem::exists(machinery)) {
    GTEST_SKIP() << "SKIPPED: no modules k8s.io/{api,apimachinery}@v0.37.2 in " << cache;
  }
  const std::vector<std::pair<std::string, std::string>> files = {
      {"runtime", machinery + "runtime"},        {"resource", machinery + "api/resource"},
      {"meta", machinery + "apis/meta/v1"},      {"core", api + "core/v1"},
      {"coordination", api + "coordination/v1"}, {"scheduling", api + "scheduling/v1"}};
  for (const auto& [name, folder] : files) {
    const Fields ours =
        ReadProto(asterism::test_paths::SourceTree() + "/proto/k8s/" + name + ".proto");
    const Fields theirs = ReadProto(folder + "/generated.proto");
    EXPECT_FALSE(ours.empty()) << name;
    for (const auto& [field, shape] : ours) {
      const auto found = theirs.find(field);
      ASSERT_NE(found, theirs.end()) << name << ": " << field;
      EXPECT_EQ(shape, found->second) << name << ": " << field;
    }
  }
}

}  // namespace
}  // namespace asterism::kube
