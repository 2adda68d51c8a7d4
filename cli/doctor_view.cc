#include "cli/doctor_view.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "fmt/format.h"

namespace asterism::cli {
namespace {

using topology::Diagnosis;
using topology::FindingDescription;
using topology::SourcedFinding;

// What a text holds, in the words of its summary.
std::string Holds(const nlohmann::ordered_json& summary) {
  constexpr std::string_view kCounts[] = {"switches",   "cas",       "gpu_hosts", "domain_groups",
                                          "gpus",       "nics",      "nodes",     "blocks",
                                          "hypernodes", "instances", "hosts"};
  std::string text;
  for (const std::string_view key : kCounts) {
    const auto it = summary.find(key);
    if (it == summary.end() || !it->is_number_integer()) {
      continue;
    }
    std::string words(key);
    std::replace(words.begin(), words.end(), '_', ' ');
    words = words == "cas" ? "adapters" : words == "domain groups" ? "leaf groups" : words;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", it->get<int64_t>(), words);
  }
  return text;
}

void AddTexts(const Diagnosis& diagnosis, std::vector<Line>& lines) {
  for (const topology::ExaminedText& text : diagnosis.texts) {
    Line line;
    if (!text.error.empty()) {
      line.Add("cannot read ", Tone::kBad).Add(text.error);
    } else {
      line.Add(text.name, Tone::kBold).Add(": ").Add(text.summary.value("format", ""));
      if (text.summary.value("status", "ok") != "ok") {
        line.Add(fmt::format(" ({})", text.summary.value("status", "")), Tone::kWarn);
      }
      if (const std::string holds = Holds(text.summary); !holds.empty()) {
        line.Add(", ").Add(holds);
      }
    }
    lines.push_back(std::move(line));
  }
}

void AddKind(const std::vector<const SourcedFinding*>& findings, bool several_texts,
             const DoctorViewOptions& options, std::vector<Line>& lines) {
  const FindingDescription& kind = topology::Describe(findings.front()->finding.kind);
  lines.emplace_back();
  Line head;
  head.Add(kind.name, Tone::kWarn);
  if (findings.size() > 1) {
    head.Add(fmt::format(" ({})", findings.size()));
  }
  head.Add(": ").Add(kind.means);
  lines.push_back(std::move(head));
  const size_t shown = options.wide ? findings.size() : std::min(findings.size(), kFindingsShown);
  for (size_t i = 0; i < shown; ++i) {
    const SourcedFinding& each = *findings[i];
    std::string objects;
    for (const std::string& object : each.finding.objects) {
      objects += (objects.empty() ? "" : ", ") + object;
    }
    const std::string from = several_texts ? fmt::format(" [{}]", each.source) : "";
    AddWrapped("  - ", fmt::format("{}: {}{}", objects, each.finding.evidence, from), Tone::kPlain,
               options.width, lines);
  }
  if (shown < findings.size()) {
    lines.emplace_back(fmt::format("    and {} more (-o wide shows all)", findings.size() - shown),
                       Tone::kFaint);
  }
  AddWrapped("  costs   ", kind.costs, Tone::kPlain, options.width, lines);
  AddWrapped("  remedy  ", kind.remedy, Tone::kPlain, options.width, lines);
}

}  // namespace

std::vector<Line> DoctorLines(const Diagnosis& diagnosis, const DoctorViewOptions& options) {
  std::vector<Line> lines;
  AddTexts(diagnosis, lines);
  std::vector<const SourcedFinding*> findings;
  for (const SourcedFinding& each : diagnosis.findings) {
    findings.push_back(&each);
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const SourcedFinding* left, const SourcedFinding* right) {
                     return left->finding.kind < right->finding.kind;
                   });
  for (size_t i = 0; i < findings.size();) {
    size_t end = i;
    while (end < findings.size() && findings[end]->finding.kind == findings[i]->finding.kind) {
      ++end;
    }
    AddKind({findings.begin() + static_cast<std::ptrdiff_t>(i),
             findings.begin() + static_cast<std::ptrdiff_t>(end)},
            options.sources && diagnosis.texts.size() > 1, options, lines);
    i = end;
  }
  if (findings.empty() && !diagnosis.unreadable) {
    lines.emplace_back("nothing is wrong", Tone::kGood);
  }
  return lines;
}

}  // namespace asterism::cli
