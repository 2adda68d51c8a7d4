#include "topology/import/kubernetes_documents.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "topology/import/name_budget.h"
#include "topology/import/text_lines.h"

namespace asterism::topology {
namespace {

using nlohmann::ordered_json;

bool KindIs(const DocumentNode& object, std::string_view kind) {
  const std::string_view found = object.Text("kind");
  return found.size() == kind.size() &&
         std::equal(found.begin(), found.end(), kind.begin(), [](char left, char right) {
           return std::tolower(static_cast<unsigned char>(left)) ==
                  std::tolower(static_cast<unsigned char>(right));
         });
}

int64_t CountOf(std::string_view text) {
  return static_cast<int64_t>(DecimalOf(text).value_or(0));
}

class KubernetesReader {
 public:
  KubernetesReader(std::string_view name, const std::vector<DocumentNode>& documents)
      : documents_(documents) {
    out_.source = std::string(name);
  }

  absl::StatusOr<std::optional<Imported>> Read() {
    for (const DocumentNode& document : documents_) {
      if (document.is_map()) {
        ReadObject(document);
      }
    }
    if (!reasons_.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {}", out_.source, fmt::join(reasons_, "; ")));
    }
    if (out_.format.empty()) {
      return std::optional<Imported>();
    }
    Finish();
    return std::optional<Imported>(std::move(out_));
  }

 private:
  void Refuse(uint32_t line, const std::string& why) {
    if (reasons_.size() < 50) {
      reasons_.push_back(fmt::format("line {}: {}", line, why));
    }
  }

  void ReadObject(const DocumentNode& object) {
    const std::string_view kind = object.Text("kind");
    // Items of a NodeList do not repeat their kind; a list that was cut at its head has none.
    if (kind.ends_with("List") || (kind.empty() && !object.Items("items").empty())) {
      const std::string_view of = kind.substr(0, kind.size() - std::min<size_t>(kind.size(), 4));
      for (const DocumentNode& item : object.Items("items")) {
        if (!item.is_map()) {
          continue;
        }
        if (item.Find("kind") == nullptr && !of.empty()) {
          DocumentNode named = item;
          named.fields.push_back(
              {"kind", {.kind = DocumentNode::Kind::kText, .text = std::string(of)}});
          ReadItem(named);
        } else if (item.Find("kind") != nullptr) {
          ReadItem(item);
        }
      }
      if (out_.format.empty() && !kind.empty()) {
        out_.format = "node-labels";
      }
      return;
    }
    ReadItem(object);
  }

  void ReadItem(const DocumentNode& object) {
    if (KindIs(object, "Node")) {
      ReadNode(object);
    } else if (KindIs(object, "HyperNode")) {
      ReadHyperNode(object);
    } else if (KindIs(object, "Topology")) {
      ReadKueueTopology(object);
    } else if (KindIs(object, "ClusterNetworkTopology")) {
      ReadKoordinator(object);
    } else if (object.Find("networkTopologyDiscovery") != nullptr) {
      ReadVolcanoDiscovery(object);
    } else if (object.Find("switches") != nullptr && object.Find("blocks") != nullptr) {
      ReadTopographModel(object);
    } else if (const DocumentNode* mock = object.Find("topology");
               mock != nullptr && mock->Find("domains") != nullptr) {
      ReadMockDomains(*mock);
    } else if (object.Find("kind") == nullptr && object.Find("labels") == nullptr &&
               object.Find("device_defaults") != nullptr) {
      ReadMockProfile(object);
    } else if (!object.Text("kind").empty()) {
      ++other_objects_;
    }
  }

  void ReadNode(const DocumentNode& object) {
    if (out_.format.empty()) {
      out_.format = "node-labels";
    }
    const DocumentNode* metadata = object.Find("metadata");
    Labels labels;
    std::string_view name;
    if (metadata != nullptr) {
      name = metadata->Text("name");
      if (const DocumentNode* found = metadata->Find("labels"); found != nullptr) {
        for (const DocumentField& field : found->fields) {
          labels.emplace_back(field.key, field.value.text);
        }
      }
    }
    if (name.empty()) {
      out_.Damage(object.line, "a Node without metadata.name");
    }
    NodeResources resources;
    if (const DocumentNode* status = object.Find("status"); status != nullptr) {
      resources.told = status->Find("allocatable") != nullptr;
      TakeResources(status->Find("capacity"), resources.gpu_capacity, nullptr);
      TakeResources(status->Find("allocatable"), resources.gpu_allocatable,
                    &resources.mig_allocatable);
    }
    out_.nodes.push_back(ReadNodeLabels(name, labels, resources));
  }

  static void TakeResources(const DocumentNode* resources, int64_t& gpus, int64_t* slices) {
    if (resources == nullptr) {
      return;
    }
    for (const DocumentField& field : resources->fields) {
      const std::string_view key = field.key;
      if (key == "nvidia.com/gpu" || key == "amd.com/gpu" || key == "gpu.intel.com/i915" ||
          key == "habana.ai/gaudi" || key.starts_with("huawei.com/Ascend")) {
        gpus += CountOf(field.value.text);
      } else if (slices != nullptr && key.starts_with("nvidia.com/mig-")) {
        *slices += CountOf(field.value.text);
      }
    }
  }

  void ReadHyperNode(const DocumentNode& object) {
    out_.format = "volcano_hypernode";
    const DocumentNode* metadata = object.Find("metadata");
    const DocumentNode* spec = object.Find("spec");
    DeclaredSwitch found{.name = metadata == nullptr ? "" : std::string(metadata->Text("name")),
                         .line = object.line};
    if (found.name.empty() || spec == nullptr) {
      Refuse(object.line, "a HyperNode without a name or spec");
      return;
    }
    ++tiers_[std::string(spec->Text("tier"))];
    for (const DocumentNode& member : spec->Items("members")) {
      const DocumentNode* selector = member.Find("selector");
      const DocumentNode* exact = selector == nullptr ? nullptr : selector->Find("exactMatch");
      if (exact == nullptr) {
        out_.Note(member.line, FindingKind::kUnreadablePart, found.name,
                  "a member that is no exactMatch is matched by the cluster, not here");
        continue;
      }
      (member.Text("type") == "HyperNode" ? found.children : found.nodes)
          .emplace_back(exact->Text("name"));
    }
    Tree().switches.push_back(std::move(found));
  }

  DeclaredTree& Tree() {
    if (!out_.tree.has_value()) {
      out_.tree.emplace();
    }
    return *out_.tree;
  }

  void ReadKueueTopology(const DocumentNode& object) {
    const DocumentNode* spec = object.Find("spec");
    if (spec == nullptr || spec->Items("levels").empty()) {
      Refuse(object.line, "a Topology without spec.levels");
      return;
    }
    out_.format = "kueue_topology";
    ordered_json levels = ordered_json::array();
    for (const DocumentNode& level : spec->Items("levels")) {
      levels.push_back(std::string(level.Text("nodeLabel")));
    }
    if (levels.size() > kLevelsMax) {
      Refuse(object.line, fmt::format("{} levels are more than {}", levels.size(), kLevelsMax));
    }
    out_.summary["levels_outer_to_inner"] = std::move(levels);
  }

  // Two spellings of the same, hierarchy and networkTopologySpec.
  void ReadKoordinator(const DocumentNode& object) {
    out_.format = "koordinator";
    const DocumentNode* spec = object.Find("spec");
    std::map<std::string, std::string, std::less<>> parent;
    std::set<std::string, std::less<>> parents;
    if (spec != nullptr) {
      for (const std::string_view list : {"hierarchy", "networkTopologySpec"}) {
        for (const DocumentNode& layer : spec->Items(list)) {
          const std::string_view name = layer.Find("layerName") != nullptr
                                            ? layer.Text("layerName")
                                            : layer.Text("topologyLayer");
          parent.emplace(name, layer.Text("parentTopologyLayer"));
          parents.emplace(layer.Text("parentTopologyLayer"));
        }
      }
    }
    ordered_json layers = ordered_json::array();
    for (const auto& [name, above] : parent) {
      if (!parents.contains(name)) {
        for (auto it = parent.find(name); it != parent.end() && layers.size() <= kLevelsMax;
             it = parent.find(it->second)) {
          layers.push_back(it->first);
        }
        break;
      }
    }
    if (layers.size() > kLevelsMax || layers.empty()) {
      Refuse(object.line, "the layers form no chain: each names its parent, and one names none");
    }
    out_.summary["layers_inner_to_outer"] = std::move(layers);
  }

  void ReadVolcanoDiscovery(const DocumentNode& object) {
    out_.format = "volcano_discovery";
    ordered_json sources = ordered_json::object();
    ordered_json sets = ordered_json::object();
    for (const DocumentNode& source : object.Items("networkTopologyDiscovery")) {
      sources[std::string(source.Text("source"))] = source.Text("enabled") == "true";
      const DocumentNode* config = source.Find("config");
      const DocumentNode* types =
          config == nullptr ? nullptr : config->Find("networkTopologyTypes");
      if (types != nullptr) {
        for (const DocumentField& type : types->fields) {
          for (const DocumentNode& level : type.value.items) {
            sets[type.key].push_back(std::string(level.Text("nodeLabel")));
          }
        }
      }
    }
    out_.summary["sources"] = std::move(sources);
    out_.summary["label_sets"] = std::move(sets);
    out_.summary["order"] = "outer_to_inner";
  }

  void Expand(const DocumentNode& list, std::vector<std::string>& names) {
    for (const DocumentNode& item : list.ItemsOrSelf()) {
      if (const absl::Status taken = budget_.Expand(item.text, names); !taken.ok()) {
        Refuse(item.line, std::string(base::ToStd(taken.message())));
      }
    }
  }

  void ReadTopographModel(const DocumentNode& object) {
    out_.format = "topograph_model";
    std::map<std::string, DeclaredSwitch, std::less<>> switches;
    for (const DocumentField& field : object.Find("switches")->fields) {
      DeclaredSwitch found{.name = field.key, .line = field.value.line};
      for (const DocumentNode& child : field.value.Items("switches")) {
        found.children.push_back(child.text);
      }
      switches.emplace(field.key, std::move(found));
    }
    std::set<std::string> domains;
    std::set<std::string> sub_domains;
    std::map<size_t, size_t> sizes;
    for (const DocumentNode& block : object.Items("blocks")) {
      DeclaredSwitch leaf{.name = std::string(block.Text("switch")), .line = block.line};
      if (const DocumentNode* nodes = block.Find("nodes"); nodes != nullptr) {
        Expand(*nodes, leaf.nodes);
      }
      ++sizes[leaf.nodes.size()];
      std::string domain;
      if (const DocumentNode* annotations = block.Find("annotations"); annotations != nullptr) {
        for (const DocumentField& each : annotations->fields) {
          if (each.key.ends_with("/domain")) {
            domain = each.value.text;
            domains.insert(domain);
          } else if (each.key.ends_with("/sub-domain")) {
            sub_domains.insert(each.value.text);
          }
        }
      }
      Tree().blocks.push_back({.name = domain.empty() ? leaf.name : domain, .nodes = leaf.nodes});
      auto [it, added] = switches.emplace(leaf.name, leaf);
      if (!added) {
        it->second.nodes = leaf.nodes;
      }
    }
    for (auto& [name, found] : switches) {
      Tree().switches.push_back(std::move(found));
    }
    const TreeCheck check = CheckTree(Tree());
    for (const TreeProblem& problem : check.reasons) {
      Refuse(problem.line, problem.text);
    }
    out_.summary["switches"] = Tree().switches.size();
    out_.summary["blocks"] = object.Items("blocks").size();
    out_.summary["nodes"] = check.node_count;
    out_.summary["accelerator_domains"] = domains.size();
    out_.summary["accelerator_sub_domains"] = sub_domains.size();
    ordered_json pairs = ordered_json::array();
    for (const auto& [size, count] : sizes) {
      pairs.push_back({size, count});
    }
    out_.summary["nodes_per_block"] = std::move(pairs);
  }

  void ReadMockDomains(const DocumentNode& topology) {
    out_.format = "compute-domains";
    size_t zero_cliques = 0;
    for (const DocumentNode& domain : topology.Items("domains")) {
      for (const DocumentNode& clique : domain.Items("cliques")) {
        for (const DocumentNode& node : clique.Items("nodes")) {
          LabelledNode& added = out_.nodes.emplace_back();
          added.name = node.text;
          added.clique = fmt::format("{}.{}", domain.Text("uuid"), clique.Text("id"));
          added.nvlink_domain = IsZeroClique(added.clique) ? "" : added.clique;
          // Some tools take clique 0 for none; with a UUID it is one like the others.
          zero_cliques += clique.Text("id") == "0" ? 1 : 0;
        }
      }
    }
    out_.summary["nodes_in_clique_0"] = zero_cliques;
  }

  void ReadMockProfile(const DocumentNode& object) {
    out_.format = "nvml-profile";
    out_.summary["devices"] = object.Items("devices").size();
    out_.summary["product"] = std::string(object.Find("device_defaults")->Text("name"));
  }

  void Finish() {
    if (out_.format == "volcano_hypernode") {
      const TreeCheck check = CheckTree(*out_.tree);
      std::set<std::string> names;
      for (const DeclaredSwitch& each : out_.tree->switches) {
        names.insert(each.name);
      }
      out_.summary["hypernodes"] = out_.tree->switches.size();
      out_.summary["distinct_names"] = names.size();
      out_.summary["by_tier"] = tiers_;
      out_.summary["roots"] = check.roots;
      for (const TreeProblem& problem : check.reasons) {
        out_.Damage(problem.line, problem.text);
      }
    }
    out_.summary["kind"] = out_.format;
    if (!out_.nodes.empty()) {
      SummariseNodes(out_);
    }
  }

  const std::vector<DocumentNode>& documents_;
  Imported out_;
  std::map<std::string, size_t> tiers_;
  std::vector<std::string> reasons_;
  size_t other_objects_ = 0;
  NameBudget budget_;
};

}  // namespace

absl::StatusOr<std::optional<Imported>> ImportKubernetes(
    std::string_view name, const std::vector<DocumentNode>& documents) {
  return KubernetesReader(name, documents).Read();
}

bool LooksLikeShowLabels(std::string_view head) {
  TextLines lines(head);
  while (lines.Next()) {
    const std::vector<std::string_view> words = WordsOf(lines.line());
    if (words.size() >= 3 && words[0] == "NAME" && words.back() == "LABELS") {
      return true;
    }
  }
  return false;
}

absl::StatusOr<Imported> ImportShowLabels(std::string_view name, std::string_view text) {
  Imported out;
  out.source = std::string(name);
  out.format = "show-labels";
  TextLines lines(text);
  bool header = false;
  while (lines.Next()) {
    const std::vector<std::string_view> words = WordsOf(lines.line());
    if (words.empty()) {
      continue;
    }
    if (!header) {
      header = words[0] == "NAME" && words.back() == "LABELS";
      continue;
    }
    Labels labels;
    std::string_view list = words.back();
    if (words.size() < 3 || list.find('=') == std::string_view::npos) {
      out.Damage(lines.number(),
                 fmt::format("a node without labels: \"{}\"", Excerpt(lines.line())));
      continue;
    }
    while (!list.empty()) {
      const size_t comma = std::min(list.find(','), list.size());
      const std::string_view item = list.substr(0, comma);
      const size_t equals = item.find('=');
      if (equals != std::string_view::npos) {
        labels.emplace_back(item.substr(0, equals), item.substr(equals + 1));
      }
      list.remove_prefix(std::min(comma + 1, list.size()));
    }
    out.nodes.push_back(ReadNodeLabels(words[0], labels, {}));
  }
  if (out.nodes.empty()) {
    return absl::InvalidArgumentError(fmt::format("{}: line 1: no node below the header", name));
  }
  SummariseNodes(out);
  return out;
}

void SummariseNodes(Imported& imported) {
  auto& summary = imported.summary;
  std::map<std::string, size_t> products;
  std::map<std::string, size_t> cliques;
  std::map<std::string, size_t> domains;
  std::vector<std::string> without_domain;
  std::map<std::string, std::vector<std::string>> levels;
  std::map<std::string_view, std::vector<std::set<std::string>>> distinct;
  std::map<std::string_view, ordered_json> keys;
  int64_t allocatable = 0;
  int64_t capacity = 0;
  int64_t mig = 0;
  int64_t whole = 0;
  bool guest = false;
  bool slices = false;
  for (const LabelledNode& node : imported.nodes) {
    products[node.product] += node.product.empty() ? 0 : 1;
    if (!node.clique.empty()) {
      ++cliques[node.clique];
      if (node.nvlink_domain.empty()) {
        without_domain.push_back(node.name);
      }
    }
    if (!node.nvlink_domain.empty()) {
      ++domains[node.nvlink_domain];
    }
    allocatable += node.resources.gpu_allocatable;
    capacity += node.resources.gpu_capacity;
    mig += node.resources.mig_allocatable;
    whole += node.WholeGpus();
    guest = guest || node.guest;
    slices = slices || node.mig_single || node.resources.mig_allocatable > 0;
    if (!node.levels.empty()) {
      auto& sets = distinct[node.source];
      sets.resize(std::max(sets.size(), node.levels.size()));
      ordered_json names = ordered_json::array();
      for (size_t level = 0; level < node.levels.size(); ++level) {
        levels[node.name].push_back(node.levels[level].value);
        if (!node.levels[level].value.empty()) {
          sets[level].insert(node.levels[level].value);
        }
        const std::string& key = node.levels[level].key;
        names.insert(names.begin(), key.substr(key.rfind('-') + 1));
      }
      keys[node.source] = std::move(names);
    }
    for (const Finding& finding : node.findings) {
      imported.Note(0, finding.kind, node.name, finding.evidence);
    }
  }
  std::erase_if(products, [](const auto& each) { return each.second == 0; });
  summary["nodes"] = imported.nodes.size();
  summary["products"] = products;
  summary["resource_allocatable"] = allocatable;
  summary["resource_capacity"] = capacity;
  summary["mig_allocatable"] = mig;
  summary["whole_gpus_for_gangs"] = whole;
  summary["virtual_machine"] = guest;
  summary["cliques"] = cliques;
  summary["nvlink_domains"] = domains;
  summary["without_domain"] = without_domain;
  summary["levels_inner_to_outer"] = levels;
  if (distinct.size() == 1) {
    std::vector<size_t> counts;
    for (const std::set<std::string>& values : distinct.begin()->second) {
      counts.insert(counts.begin(), values.size());
    }
    summary["distinct_per_level"] = counts;
    summary["levels_outer_to_inner"] = keys.begin()->second;
  }
}

}  // namespace asterism::topology
