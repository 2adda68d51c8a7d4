#include "topology/import/slurm_conf.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "topology/import/name_budget.h"
#include "topology/import/text_lines.h"
#include "topology/natural_order.h"

namespace asterism::topology {
namespace {

bool SameWord(std::string_view left, std::string_view right) {
  return absl::EqualsIgnoreCase(base::ToAbsl(left), base::ToAbsl(right));
}

class SlurmReader {
 public:
  SlurmReader(std::string_view name, std::string_view text) : lines_(text) {
    out_.source = std::string(name);
    out_.format = "slurm-conf";
  }

  absl::StatusOr<Imported> Read() {
    while (lines_.Next()) {
      if (lines_.cut()) {
        Refuse(fmt::format("the line is longer than {} bytes", kLineBytesMax));
        continue;
      }
      // A backslash at the end goes on in the next line.
      if (lines_.line().ends_with('\\') && joined_.size() < kLineBytesMax) {
        joined_ += lines_.line().substr(0, lines_.line().size() - 1);
        continue;
      }
      if (joined_.empty()) {
        ReadLine(lines_.line());
      } else {
        joined_ += lines_.line();
        ReadLine(std::exchange(joined_, {}));
      }
    }
    if (!joined_.empty()) {
      ReadLine(joined_);
    }
    if (tree_.switches.empty() && tree_.blocks.empty() && !block_ && reasons_.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: line 1: no SwitchName, BlockName or BlockSizes in {} lines", out_.source,
                      lines_.number()));
    }
    block_ ? FinishBlocks() : FinishTree();
    if (!reasons_.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {}", out_.source, fmt::join(reasons_, "; ")));
    }
    out_.tree = std::move(tree_);
    return std::move(out_);
  }

 private:
  void Refuse(const std::string& why) {
    if (reasons_.size() < 50) {
      reasons_.push_back(fmt::format("line {}: {}", lines_.number(), why));
    }
  }
  void Refuse(const std::vector<TreeProblem>& problems) {
    for (const TreeProblem& problem : problems) {
      if (reasons_.size() < 50) {
        reasons_.push_back(problem.line == 0
                               ? problem.text
                               : fmt::format("line {}: {}", problem.line, problem.text));
      }
    }
  }

  void ReadLine(std::string_view line) {
    line = Trimmed(line);
    if (line.starts_with("\xef\xbb\xbf")) {
      line.remove_prefix(3);
    }
    if (line.starts_with('#')) {
      const std::string_view comment = Trimmed(line.substr(1));
      commented_blocks_ +=
          comment.size() > 10 && SameWord(comment.substr(0, 10), "BlockName=") ? 1 : 0;
      return;
    }
    line = line.substr(0, line.find('#'));
    DeclaredSwitch found{.line = lines_.number()};
    DeclaredBlock block{.line = lines_.number()};
    bool any = false;
    std::vector<std::string> nodes;
    for (const std::string_view word : WordsOf(line)) {
      const size_t equals = word.find('=');
      if (equals == std::string_view::npos) {
        Refuse(fmt::format("\"{}\" is no key=value", Excerpt(word)));
        return;
      }
      any = true;
      TakeField(word.substr(0, equals), word.substr(equals + 1), found, block, nodes);
    }
    if (!any) {
      return;
    }
    if (!block.name.empty()) {
      block_ = true;
      block.nodes = std::move(nodes);
      tree_.blocks.push_back(std::move(block));
    } else if (!found.name.empty()) {
      found.nodes = std::move(nodes);
      tree_.switches.push_back(std::move(found));
    } else if (!sizes_line_) {
      Refuse("a line without SwitchName or BlockName");
    }
    sizes_line_ = false;
  }

  void TakeField(std::string_view key, std::string_view value, DeclaredSwitch& found,
                 DeclaredBlock& block, std::vector<std::string>& nodes) {
    if (SameWord(key, "SwitchName")) {
      found.name = std::string(value);
    } else if (SameWord(key, "BlockName")) {
      block.name = std::string(value);
    } else if (SameWord(key, "Switches")) {
      Expand(value, found.children);
    } else if (SameWord(key, "Nodes")) {
      Expand(value, nodes);
    } else if (SameWord(key, "BlockSizes")) {
      block_ = sizes_line_ = true;
      TakeSizes(value);
    } else if (!SameWord(key, "LinkSpeed")) {
      out_.Note(lines_.number(), FindingKind::kUnreadablePart, std::string(Excerpt(key)),
                "an unknown key; it is left out");
    }
  }

  void Expand(std::string_view list, std::vector<std::string>& names) {
    if (const absl::Status taken = budget_.Expand(list, names); !taken.ok()) {
      Refuse(std::string(base::ToStd(taken.message())));
    }
  }

  void TakeSizes(std::string_view value) {
    while (!value.empty()) {
      const size_t comma = std::min(value.find(','), value.size());
      const std::optional<uint64_t> size = DecimalOf(value.substr(0, comma));
      if (!size.has_value() || *size == 0 || *size > kDeclaredNodesMax) {
        Refuse(fmt::format("BlockSizes: \"{}\" is no size", Excerpt(value.substr(0, comma))));
        return;
      }
      tree_.block_sizes.push_back(static_cast<uint32_t>(*size));
      value.remove_prefix(std::min(comma + 1, value.size()));
    }
  }

  void FinishBlocks() {
    out_.summary["kind"] = "block";
    out_.summary["block_sizes"] = tree_.block_sizes;
    out_.summary["blocks"] = tree_.blocks.size();
    out_.summary["commented_blocks"] = commented_blocks_;
    size_t nodes = 0;
    out_.summary["nodes_per_block"] = nlohmann::ordered_json::array();
    for (const DeclaredBlock& block : tree_.blocks) {
      nodes += block.nodes.size();
      out_.summary["nodes_per_block"].push_back(block.nodes.size());
    }
    out_.summary["nodes"] = nodes;
    if (tree_.blocks.empty()) {
      out_.Damage(0, "BlockSizes without any block: nothing to place");
    }
    Refuse(CheckBlocks(tree_));
    const uint32_t base = tree_.block_sizes.empty() ? 0
                                                    : *std::min_element(tree_.block_sizes.begin(),
                                                                        tree_.block_sizes.end());
    std::string small;
    for (const DeclaredBlock& block : tree_.blocks) {
      if (block.nodes.size() < base) {
        out_.Note(block.line, FindingKind::kIntentDiffers, block.name,
                  fmt::format("block {} holds {} nodes, fewer than the base size", block.name,
                              block.nodes.size()));
      }
    }
  }

  bool IsSharp() const {
    size_t guids = 0;
    size_t nodes = 0;
    for (const DeclaredSwitch& each : tree_.switches) {
      for (const std::string& node : each.nodes) {
        ++nodes;
        guids += node.starts_with("0x") && HexOf(node).has_value() ? 1 : 0;
      }
    }
    return nodes > 0 && guids == nodes;
  }

  void FinishTree() {
    const TreeCheck check = CheckTree(tree_);
    const bool sharp = IsSharp();
    out_.summary["kind"] = sharp ? "sharp" : "tree";
    out_.summary["switches"] = tree_.switches.size();
    out_.summary["leaf_switches"] = check.leaf_count;
    out_.summary["nodes"] = check.node_count;
    out_.summary["roots"] = check.roots.size();
    out_.summary["multi_parent_switches"] = check.multi_parent;
    out_.summary["cycle"] = check.cycle;
    std::map<std::string, size_t> sizes;
    for (const DeclaredSwitch& each : tree_.switches) {
      if (!each.nodes.empty()) {
        ++sizes[std::to_string(each.nodes.size())];
      }
    }
    out_.summary["leaf_sizes"] = sizes;
    if (!check.cycle) {
      out_.summary["levels"] = check.levels;
    }
    if (sharp) {
      FinishSharp(check);
      return;
    }
    // A tree made from a real fabric has switches with several parents; its leafs can be used.
    const bool generated =
        check.multi_parent > 0 && check.leaf_count > 0 &&
        std::all_of(check.reasons.begin(), check.reasons.end(),
                    [](const TreeProblem& problem) { return problem.text.starts_with("cycle"); });
    if (generated && 2 * check.multi_parent > check.leaf_count) {
      out_.Damage(check.reasons.empty() ? 0 : check.reasons.front().line,
                  check.cycle
                      ? fmt::format("switch {}: the tree above the leafs is not used",
                                    check.reasons.front().text)
                      : "switches with several parents: the tree above the leafs is not used");
      KeepLeafsOnly();
      return;
    }
    Refuse(check.reasons);
    if (check.multi_parent > 0 && check.reasons.empty()) {
      out_.Damage(0, fmt::format("{} switches have several parents: the first one is used",
                                 check.multi_parent));
    }
  }

  void KeepLeafsOnly() {
    std::erase_if(tree_.switches, [](const DeclaredSwitch& each) { return each.nodes.empty(); });
    for (DeclaredSwitch& each : tree_.switches) {
      each.children.clear();
    }
  }

  // Read as an undirected graph: the root is the switch with most neighbours that are switches.
  void FinishSharp(const TreeCheck& check) {
    std::vector<TreeProblem> others;
    for (const TreeProblem& problem : check.reasons) {
      if (!problem.text.starts_with("cycle") && !problem.text.starts_with("node ")) {
        others.push_back(problem);
      }
    }
    Refuse(others);
    // Parents are repeated as children: only one that is not the way to the root counts as a
    // second.
    out_.summary["roots"] = 0;
    out_.summary["multi_parent_switches"] = check.multi_parent;
  }

  TextLines lines_;
  Imported out_;
  DeclaredTree tree_;
  std::vector<std::string> reasons_;
  std::string joined_;
  size_t commented_blocks_ = 0;
  NameBudget budget_;
  bool block_ = false;
  bool sizes_line_ = false;
};

std::optional<uint64_t> GuidOfWord(std::string_view word) {
  if (word.starts_with("H-") || word.starts_with("0x")) {
    return HexOf(word.substr(2));
  }
  return std::nullopt;
}

bool IsUuid(std::string_view word) {
  return word.size() == 36 && word[8] == '-' && word[13] == '-' && word[18] == '-' &&
         word[23] == '-' && word.find_first_not_of("0123456789abcdefABCDEF-") == word.npos;
}

}  // namespace

bool LooksLikeSlurmConf(std::string_view head) {
  TextLines lines(head);
  while (lines.Next()) {
    std::string_view line = Trimmed(lines.line());
    if (line.starts_with("\xef\xbb\xbf")) {
      line.remove_prefix(3);
    }
    for (const std::string_view key : {"SwitchName=", "BlockName=", "BlockSizes="}) {
      if (line.size() >= key.size() && SameWord(line.substr(0, key.size()), key)) {
        return true;
      }
    }
  }
  return false;
}

absl::StatusOr<Imported> ImportSlurmConf(std::string_view name, std::string_view text) {
  return SlurmReader(name, text).Read();
}

bool LooksLikeGuidList(std::string_view head) {
  TextLines lines(head);
  size_t good = 0;
  size_t seen = 0;
  while (lines.Next() && seen < 50) {
    const std::string_view line = Trimmed(lines.line());
    if (line.empty() || line.starts_with('#')) {
      continue;
    }
    ++seen;
    const std::vector<std::string_view> words = WordsOf(line);
    good += words.size() == 2 && (GuidOfWord(words[0]) || GuidOfWord(words[1]) || IsUuid(words[1]))
                ? 1
            : words.size() == 1 && (words[0].starts_with("S-") || words[0].starts_with("H-")) ? 1
                                                                                              : 0;
  }
  return seen > 0 && good + 1 >= seen && good > 0;
}

absl::StatusOr<Imported> ImportGuidList(std::string_view name, std::string_view text) {
  Imported out;
  out.source = std::string(name);
  out.format = "guid-list";
  TextLines lines(text);
  std::set<std::string> hosts;
  size_t domains = 0;
  while (lines.Next()) {
    const std::vector<std::string_view> words = WordsOf(Trimmed(lines.line()));
    if (words.empty() || words[0].starts_with('#') || words.size() == 1) {
      continue;
    }
    const bool guid_first = GuidOfWord(words[0]).has_value();
    std::string_view host = guid_first ? words[1] : words[0];
    if (host.ends_with(':')) {
      host.remove_suffix(1);
    }
    const std::optional<uint64_t> guid = GuidOfWord(guid_first ? words[0] : words[1]);
    if (guid.has_value()) {
      const auto [it, added] = out.owners.emplace(*guid, std::string(host));
      if (!added && it->second != host) {
        out.Note(lines.number(), FindingKind::kDuplicateGuid, GuidText(*guid),
                 fmt::format("belongs to {} already, and to {} here", it->second, Excerpt(host)));
      }
    } else if (IsUuid(words[1])) {
      ++domains;
      LabelledNode node;
      node.name = std::string(host);
      node.nvlink_domain = std::string(words[1]);
      out.nodes.push_back(std::move(node));
    } else {
      out.Damage(lines.number(),
                 fmt::format("neither a GUID nor a UUID: \"{}\"", Excerpt(lines.line())));
      continue;
    }
    hosts.emplace(host);
  }
  out.summary["guids"] = out.owners.size();
  out.summary["hosts"] = hosts.size();
  if (domains > 0) {
    out.summary["nodes_with_domain"] = domains;
  }
  return out;
}

DeclaredTree JoinSharp(const DeclaredTree& sharp, const GuidOwners& owners) {
  std::map<std::vector<std::string>, std::string> leafs;
  const DeclaredSwitch* root = nullptr;
  for (const DeclaredSwitch& each : sharp.switches) {
    std::set<std::string> hosts;
    for (const std::string& port : each.nodes) {
      const std::optional<uint64_t> guid = HexOf(port);
      if (const auto it = owners.find(guid.value_or(0)); guid.has_value() && it != owners.end()) {
        hosts.insert(it->second);
      }
    }
    if (!hosts.empty()) {
      std::vector<std::string> sorted(hosts.begin(), hosts.end());
      std::sort(sorted.begin(), sorted.end(), NaturalLess);
      leafs.emplace(std::move(sorted), each.name);
    }
    if (root == nullptr || each.children.size() > root->children.size()) {
      root = &each;
    }
  }
  DeclaredTree joined;
  std::vector<std::string> names;
  for (const auto& [hosts, name] : leafs) {
    joined.switches.push_back({.name = name, .nodes = hosts});
    names.push_back(name);
  }
  if (root != nullptr && names.size() > 1) {
    joined.switches.push_back({.name = root->name, .children = names});
  }
  return joined;
}

}  // namespace asterism::topology
