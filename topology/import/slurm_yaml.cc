#include "topology/import/slurm_yaml.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "topology/import/name_budget.h"
#include "topology/import/text_lines.h"

namespace asterism::topology {
namespace {

using nlohmann::ordered_json;

int64_t WholeNumberOf(std::string_view text) {
  return static_cast<int64_t>(DecimalOf(text).value_or(0));
}

class SlurmYamlReader {
 public:
  explicit SlurmYamlReader(std::string_view name) { out_.source = std::string(name); }

  absl::StatusOr<std::optional<Imported>> Read(const std::vector<DocumentNode>& documents) {
    for (const DocumentNode& document : documents) {
      if (document.is_list() && !document.items.empty() &&
          document.items[0].Find("topology") != nullptr) {
        ReadSlurmYaml(document);
      }
    }
    if (!reasons_.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {}", out_.source, fmt::join(reasons_, "; ")));
    }
    if (out_.format.empty()) {
      return std::optional<Imported>();
    }
    return std::optional<Imported>(std::move(out_));
  }

 private:
  void Refuse(uint32_t line, const std::string& why) {
    if (reasons_.size() < 50) {
      reasons_.push_back(fmt::format("line {}: {}", line, why));
    }
  }

  DeclaredTree& Tree() {
    if (!out_.tree.has_value()) {
      out_.tree.emplace();
    }
    return *out_.tree;
  }

  void Expand(const DocumentNode& list, std::vector<std::string>& names) {
    for (const DocumentNode& item : list.ItemsOrSelf()) {
      if (const absl::Status taken = budget_.Expand(item.text, names); !taken.ok()) {
        Refuse(item.line, std::string(base::ToStd(taken.message())));
      }
    }
  }

  void ReadSlurmYaml(const DocumentNode& document) {
    out_.format = "slurm-yaml";
    out_.summary["kind"] = "yaml";
    ordered_json kinds = ordered_json::array();
    for (const DocumentNode& topology : document.items) {
      for (const std::string_view kind : {"tree", "block", "flat", "ring", "torus3d"}) {
        if (const DocumentNode* found = topology.Find(kind); found != nullptr) {
          kinds.push_back(std::string(kind));
          ReadNamedTopology(kind, *found);
        }
      }
    }
    if (kinds.empty()) {
      Refuse(document.line, "no tree, block, flat, ring or torus3d below \"topology\"");
    }
    out_.summary["topologies"] = std::move(kinds);
  }

  void ReadNamedTopology(std::string_view kind, const DocumentNode& found) {
    if (kind == "tree") {
      ReadSlurmTree(found);
    } else if (kind == "block") {
      ReadSlurmBlocks(found);
    } else if (kind == "ring") {
      size_t nodes = 0;
      for (const DocumentNode& ring : found.Items("rings")) {
        nodes += CountNodes(ring);
      }
      out_.summary["ring"] = {{"nodes", nodes}, {"rings", found.Items("rings").size()}};
    } else if (kind == "torus3d") {
      ReadTorus(found);
    }
  }

  size_t CountNodes(const DocumentNode& owner) {
    std::vector<std::string> names;
    if (const DocumentNode* nodes = owner.Find("nodes"); nodes != nullptr) {
      Expand(*nodes, names);
    }
    return names.size();
  }

  void ReadSlurmTree(const DocumentNode& found) {
    DeclaredTree tree;
    for (const DocumentNode& each : found.Items("switches")) {
      DeclaredSwitch added{.name = std::string(each.Text("switch")), .line = each.line};
      if (const DocumentNode* children = each.Find("children"); children != nullptr) {
        Expand(*children, added.children);
      }
      if (const DocumentNode* nodes = each.Find("nodes"); nodes != nullptr) {
        Expand(*nodes, added.nodes);
      }
      tree.switches.push_back(std::move(added));
    }
    const TreeCheck check = CheckTree(tree);
    for (const TreeProblem& problem : check.reasons) {
      Refuse(problem.line, problem.text);
    }
    out_.summary["tree"] = {{"nodes", check.node_count}, {"switches", tree.switches.size()}};
    Tree().switches = std::move(tree.switches);
  }

  void ReadSlurmBlocks(const DocumentNode& found) {
    DeclaredTree tree;
    for (const DocumentNode& size : found.Items("block_sizes")) {
      tree.block_sizes.push_back(static_cast<uint32_t>(WholeNumberOf(size.text)));
    }
    size_t nodes = 0;
    for (const DocumentNode& each : found.Items("blocks")) {
      DeclaredBlock block{.name = std::string(each.Text("block")), .line = each.line};
      if (const DocumentNode* list = each.Find("nodes"); list != nullptr) {
        Expand(*list, block.nodes);
      }
      nodes += block.nodes.size();
      tree.blocks.push_back(std::move(block));
    }
    for (const TreeProblem& problem : CheckBlocks(tree)) {
      Refuse(problem.line == 0 ? found.line : problem.line, problem.text);
    }
    out_.summary["block"] = {
        {"block_sizes", tree.block_sizes}, {"blocks", tree.blocks.size()}, {"nodes", nodes}};
    Tree().blocks = std::move(tree.blocks);
    Tree().block_sizes = std::move(tree.block_sizes);
  }

  static std::vector<int64_t> Dims(const DocumentNode* dims) {
    if (dims == nullptr) {
      return {};
    }
    return {WholeNumberOf(dims->Text("x")), WholeNumberOf(dims->Text("y")),
            WholeNumberOf(dims->Text("z"))};
  }

  void ReadTorus(const DocumentNode& found) {
    ordered_json summary = ordered_json::object();
    size_t nodes = 0;
    size_t shapes = 0;
    size_t regions = 0;
    for (const DocumentNode& torus : found.Items("toruses")) {
      const std::vector<int64_t> dims = Dims(torus.Find("dims"));
      summary["dims"] = dims;
      size_t placed = CountNodes(torus);
      for (const DocumentNode& region : torus.Items("regions")) {
        placed += CountNodes(region);
        ++regions;
      }
      shapes += torus.Items("placements").size();
      for (const DocumentNode& shape : torus.Items("placements")) {
        const std::vector<int64_t> size = Dims(shape.Find("dims"));
        for (size_t axis = 0; axis < size.size() && axis < dims.size(); ++axis) {
          if (size[axis] < 1 || size[axis] > dims[axis]) {
            Refuse(shape.line, "a placement does not fit into the torus");
            break;
          }
        }
      }
      if (dims.size() == 3 && dims[0] <= 1 << 12 && dims[1] <= 1 << 12 && dims[2] <= 1 << 12 &&
          placed > static_cast<size_t>(dims[0] * dims[1] * dims[2])) {
        Refuse(torus.line, fmt::format("{} nodes do not fit into {} x {} x {}", placed, dims[0],
                                       dims[1], dims[2]));
      }
      nodes += placed;
    }
    summary["nodes"] = nodes;
    summary["shapes"] = shapes;
    if (regions > 0) {
      summary["regions"] = regions;
    }
    out_.summary["torus3d"] = std::move(summary);
  }

  Imported out_;
  std::vector<std::string> reasons_;
  NameBudget budget_;
};

}  // namespace

absl::StatusOr<std::optional<Imported>> ImportSlurmYaml(
    std::string_view name, const std::vector<DocumentNode>& documents) {
  return SlurmYamlReader(name).Read(documents);
}

}  // namespace asterism::topology
