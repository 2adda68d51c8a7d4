#include "topology/import/doctor.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "fmt/format.h"
#include "topology/host_findings.h"
#include "topology/import/import_text.h"

namespace asterism::topology {
namespace {

using nlohmann::ordered_json;

// GPUs of the largest NVLink domain that is sold (NVL72).
constexpr int64_t kCliqueGpusMax = 72;
// The beginning of what base/small_file.h says.
constexpr std::string_view kCannotRead = "cannot read ";

class Examination {
 public:
  explicit Examination(const std::vector<TextOfCluster>& texts) : texts_(texts) {}

  Diagnosis Run() {
    for (const TextOfCluster& text : texts_) {
      Import(text);
    }
    for (size_t i = 0; i < imported_.size(); ++i) {
      if (imported_[i].has_value()) {
        out_.texts[i].summary = SummaryOf(*imported_[i], owners_);
        ExamineOne(*imported_[i]);
      }
    }
    CompareNodes();
    CompareDomains();
    return std::move(out_);
  }

 private:
  void Import(const TextOfCluster& text) {
    ExaminedText& examined = out_.texts.emplace_back();
    examined.name = text.name;
    absl::StatusOr<std::string> bytes = text.bytes.ok()
                                            ? Decompressed(*text.bytes)
                                            : absl::StatusOr<std::string>(text.bytes.status());
    absl::StatusOr<Imported> imported =
        bytes.ok() ? ImportText(text.name, *bytes) : absl::StatusOr<Imported>(bytes.status());
    imported_.emplace_back();
    if (!imported.ok()) {
      examined.error = std::string(base::ToStd(imported.status().message()));
      // What reads files says so itself, and those who show this say it for all.
      if (examined.error.starts_with(fmt::format("{}{}", kCannotRead, text.name))) {
        examined.error.erase(0, kCannotRead.size());
      }
      if (!examined.error.starts_with(text.name)) {
        examined.error = text.name + ": " + examined.error;
      }
      out_.unreadable = true;
      return;
    }
    owners_.insert(imported->owners.begin(), imported->owners.end());
    imported_.back() = *std::move(imported);
  }

  void Add(Finding finding, std::string source) {
    out_.findings.push_back({std::move(finding), std::move(source)});
  }

  void ExamineOne(const Imported& imported) {
    std::vector<Finding> findings;
    for (const ImportNote& note : imported.notes) {
      findings.push_back(
          {note.kind,
           {note.object},
           note.line == 0 ? note.text : fmt::format("line {}: {}", note.line, note.text)});
    }
    if (imported.fabric.has_value()) {
      const FabricAnalysis analysis = AnalyzeFabric(*imported.fabric, owners_);
      const std::vector<Finding> more = FabricFindings(*imported.fabric, analysis);
      findings.insert(findings.end(), more.begin(), more.end());
    }
    if (imported.host.has_value()) {
      const std::vector<Finding> more = HostFindings(imported.source, *imported.host);
      findings.insert(findings.end(), more.begin(), more.end());
    }
    SortFindings(findings);
    for (Finding& finding : findings) {
      Add(std::move(finding), imported.source);
    }
  }

  // Two texts that place one node differently by the same kind of label.
  void CompareNodes() {
    struct Place {
      std::string source;
      std::string_view scheme;
      std::vector<LabelLevel> levels;
    };
    std::map<std::string, Place> places;
    for (const auto& imported : imported_) {
      for (const LabelledNode& node : imported.has_value() ? imported->nodes : kNone) {
        if (node.levels.empty()) {
          continue;
        }
        const auto [it, added] =
            places.emplace(node.name, Place{imported->source, node.source, node.levels});
        if (added || it->second.scheme != node.source) {
          continue;
        }
        const size_t both = std::min(it->second.levels.size(), node.levels.size());
        for (size_t level = 0; level < both; ++level) {
          const std::string& one = it->second.levels[level].value;
          const std::string& other = node.levels[level].value;
          if (!one.empty() && !other.empty() && one != other) {
            Add({FindingKind::kConflict,
                 {node.name},
                 fmt::format("{} is \"{}\" in {} and \"{}\" in {}", node.levels[level].key, one,
                             it->second.source, other, imported->source)},
                imported->source);
            break;
          }
        }
      }
    }
  }

  // NVLink domains: too large for any product, or spread over leafs.
  void CompareDomains() {
    struct Domain {
      int64_t gpus = 0;
      size_t nodes = 0;
      std::set<std::string> leafs;
      std::string source;
    };
    std::map<std::string, Domain> domains;
    for (const auto& imported : imported_) {
      for (const LabelledNode& node : imported.has_value() ? imported->nodes : kNone) {
        if (node.nvlink_domain.empty() || node.source == "netq") {
          continue;
        }
        Domain& domain = domains[node.nvlink_domain];
        domain.gpus += node.gpu_count.value_or(node.resources.gpu_capacity);
        ++domain.nodes;
        domain.source = imported->source;
        if (!node.levels.empty() && !node.levels[0].value.empty() && node.source != "gcp") {
          domain.leafs.insert(node.levels[0].value);
        }
      }
    }
    for (const auto& [name, domain] : domains) {
      if (domain.gpus > kCliqueGpusMax) {
        Add({FindingKind::kCliqueOversize,
             {name},
             fmt::format("{} GPUs on {} nodes; {} is the most", domain.gpus, domain.nodes,
                         kCliqueGpusMax)},
            domain.source);
      }
      if (domain.leafs.size() > 1) {
        Add({FindingKind::kCliqueLeafgroupMismatch,
             {name},
             fmt::format("its {} nodes are below {} leafs: {}", domain.nodes, domain.leafs.size(),
                         fmt::join(domain.leafs, ", "))},
            domain.source);
      }
    }
  }

  inline static const std::vector<LabelledNode> kNone;

  const std::vector<TextOfCluster>& texts_;
  std::vector<std::optional<Imported>> imported_;
  GuidOwners owners_;
  Diagnosis out_;
};

}  // namespace

Diagnosis Examine(const std::vector<TextOfCluster>& texts) {
  return Examination(texts).Run();
}

ordered_json DiagnosisJson(const Diagnosis& diagnosis) {
  ordered_json texts = ordered_json::array();
  for (const ExaminedText& text : diagnosis.texts) {
    if (text.error.empty()) {
      texts.push_back({{"name", text.name}, {"summary", text.summary}});
    } else {
      texts.push_back({{"name", text.name}, {"error", text.error}});
    }
  }
  ordered_json findings = ordered_json::array();
  for (const SourcedFinding& each : diagnosis.findings) {
    const FindingDescription& kind = Describe(each.finding.kind);
    findings.push_back({{"kind", kind.name},
                        {"objects", each.finding.objects},
                        {"evidence", each.finding.evidence},
                        {"means", kind.means},
                        {"costs", kind.costs},
                        {"remedy", kind.remedy},
                        {"source", each.source}});
  }
  return {{"clean", findings.empty() && !diagnosis.unreadable},
          {"texts", std::move(texts)},
          {"findings", std::move(findings)}};
}

}  // namespace asterism::topology
