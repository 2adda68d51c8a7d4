#include "cli/doctor_page.h"

#include <optional>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "operator/json_fields.h"

namespace asterism::cli {
namespace {

using nlohmann::json;
using operators::JsonFields;

constexpr size_t kDoctorPageBytesMax = size_t{64} << 20;
constexpr size_t kSourcesMax = 1024;
constexpr size_t kFindingsMax = 1'000'000;
constexpr size_t kObjectsMax = 1024;
constexpr int64_t kNodesMax = 1'000'000;

std::optional<topology::FindingKind> KindNamed(std::string_view name) {
  for (const topology::FindingDescription& kind : topology::AllFindingKinds()) {
    if (kind.name == name) {
      return kind.kind;
    }
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<DoctorPage> ParseDoctorPage(std::string_view text) {
  if (text.size() > kDoctorPageBytesMax) {
    return absl::InvalidArgumentError(
        fmt::format("{} bytes are more than a page may have", text.size()));
  }
  const json page = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!page.is_object()) {
    return absl::InvalidArgumentError("it is not a JSON object");
  }
  absl::Status error;
  DoctorPage result;
  const JsonFields root(&page, "", &error);
  result.leading = root.Bool("leading").value_or(false);
  for (const JsonFields& fields : root.Objects("texts", kSourcesMax)) {
    topology::ExaminedText& source = result.diagnosis.texts.emplace_back();
    source.name = fields.String("name").value_or("");
    const JsonFields summary = fields.Object("summary");
    source.summary = nlohmann::ordered_json::object();
    source.summary["format"] = summary.String("format").value_or("");
    if (const auto nodes = summary.Int("nodes", 0, kNodesMax); nodes.has_value()) {
      source.summary["nodes"] = *nodes;
    }
  }
  for (const JsonFields& fields : root.Objects("findings", kFindingsMax)) {
    const auto kind = KindNamed(fields.String("kind").value_or(""));
    if (!kind.has_value()) {
      ++result.unknown_findings;
      continue;
    }
    result.diagnosis.findings.push_back(
        {{*kind, fields.Strings("objects", kObjectsMax), fields.String("evidence").value_or("")},
         fields.String("source").value_or("")});
  }
  RETURN_IF_ERROR(error);
  return result;
}

}  // namespace asterism::cli
