#include "cli/topology_picture.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/styled_text.h"
#include "cli/topology_folds.h"
#include "cli/xml_text.h"
#include "fmt/format.h"
#include "operator/node_ranges.h"

namespace asterism::cli {
namespace {

// Of one parent; the rest shares a last box.
constexpr size_t kBoxesMax = 24;
constexpr size_t kNameColumns = 30;

constexpr int kBoxPad = 14;
constexpr int kBoxHead = 44;  // title and bar of a box that holds others
constexpr int kCardWidth = 236;
constexpr int kCardHeight = 78;
constexpr int kBoxGap = 12;
constexpr int kInnerWidth = 4 * kCardWidth + 3 * kBoxGap;

struct UseColour {
  int64_t GpuCounts::*count;
  std::string_view word;
  std::string_view fill;
};
// Told apart also by those who do not see red and green.
constexpr std::array<UseColour, 4> kUses = {{{&GpuCounts::held, "held", "#3b6fb6"},
                                             {&GpuCounts::spare, "spare", "#b58a2b"},
                                             {&GpuCounts::faulty, "faulty", "#c2402f"},
                                             {&GpuCounts::free, "free", "#cfe8cf"}}};

std::string DotText(std::string_view text) {
  std::string safe;
  for (const char letter : Escaped(text)) {
    if (letter == '"' || letter == '\\') {
      safe.push_back('\\');
    }
    safe.push_back(letter);
  }
  return safe;
}

std::string Amount(int64_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

// A domain, or a pile of equal ones, with what is below it.
struct Box {
  std::string title;
  std::string names;  // of a pile
  std::string counts;
  GpuCounts gpus;
  size_t pile = 1;
  std::vector<Box> below;
  int width = kCardWidth;
  int height = kCardHeight;
};

std::string CountsText(const TopologyDomain& domain) {
  std::string text =
      fmt::format("{} of {} free", domain.gpus.free, Amount(domain.gpus.total, "GPU"));
  for (const auto& [count, word] : {std::pair{domain.gpus.held, "held"},
                                    {domain.gpus.spare, "spare"},
                                    {domain.gpus.faulty, "faulty"}}) {
    if (count > 0) {
      text += fmt::format(", {} {}", count, word);
    }
  }
  return text;
}

class BoxBuilder {
 public:
  explicit BoxBuilder(const TopologyTree& tree)
      : tree_(tree), last_level_(tree.levels.size() > 2 ? 1 : 0), folds_(tree, last_level_) {}

  Box Build() const {
    const size_t top = tree_.levels.size() - 1;
    return BoxOf(top, {0});
  }

 private:
  Box BoxOf(size_t level, const std::vector<size_t>& group) const {
    const TopologyDomain& first = tree_.domains[level][group[0]];
    Box box{.gpus = first.gpus, .pile = group.size()};
    const std::string& word = tree_.levels[level];
    const std::string nodes = level > 0 ? ", " + Amount(first.nodes, "node") : "";
    if (group.size() == 1) {
      box.title =
          first.name == word ? word + nodes : fmt::format("{} {}{}", word, first.name, nodes);
    } else {
      box.title =
          fmt::format("{} {}{}{}", group.size(), word, word.ends_with('s') ? "es" : "s",
                      level > 0 ? fmt::format(", each {}", Amount(first.nodes, "node")) : "");
      std::vector<std::string> names;
      for (const size_t member : group) {
        names.push_back(tree_.domains[level][member].name);
      }
      box.names = operators::FormatNodeRanges(names);
    }
    box.counts = CountsText(first);
    if (first.unusable_nodes > 0) {
      box.counts += fmt::format(" ({} not usable)", Amount(first.unusable_nodes, "node"));
    }
    if (level > last_level_) {
      AddBelow(level, first, box);
    }
    return box;
  }

  void AddBelow(size_t level, const TopologyDomain& parent, Box& box) const {
    const auto groups = folds_.GroupsOf(level - 1, parent.children);
    const size_t shown = groups.size() > kBoxesMax ? kBoxesMax - 1 : groups.size();
    for (size_t i = 0; i < shown; ++i) {
      box.below.push_back(BoxOf(level - 1, groups[i]));
    }
    if (shown == groups.size()) {
      return;
    }
    Box rest{.pile = 0};
    size_t domains = 0;
    for (size_t i = shown; i < groups.size(); ++i) {
      for (const size_t member : groups[i]) {
        const GpuCounts& gpus = tree_.domains[level - 1][member].gpus;
        rest.gpus.total += gpus.total;
        for (const UseColour& use : kUses) {
          rest.gpus.*use.count += gpus.*use.count;
        }
        ++domains;
      }
    }
    rest.pile = domains;
    rest.title = fmt::format("{} more of {}", domains, tree_.levels[level - 1]);
    rest.counts = fmt::format("{} of {} free", rest.gpus.free, Amount(rest.gpus.total, "GPU"));
    box.below.push_back(std::move(rest));
  }

  const TopologyTree& tree_;
  const size_t last_level_;
  const TopologyFolds folds_;
};

class SvgWriter {
 public:
  std::string Write(Box root) {
    Measure(root);
    const int width = root.width + 2 * kBoxPad;
    const int height = root.height + 2 * kBoxPad + 28;
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
        "{1}\" font-family=\"system-ui, sans-serif\">\n<rect width=\"{0}\" height=\"{1}\" "
        "fill=\"#fbfbfa\"/>\n",
        width, height);
    Legend(kBoxPad, 20);
    Draw(root, kBoxPad, kBoxPad + 28, 0);
    return out_ + "</svg>\n";
  }

 private:
  // Boxes stand in rows, as wide as four cards.
  static void Measure(Box& box) {
    if (box.below.empty()) {
      return;
    }
    int x = 0;
    int y = 0;
    int row = 0;
    int widest = 0;
    for (Box& each : box.below) {
      Measure(each);
      if (x > 0 && x + each.width > kInnerWidth) {
        x = 0;
        y += row + kBoxGap;
        row = 0;
      }
      x += each.width + kBoxGap;
      widest = std::max(widest, x - kBoxGap);
      row = std::max(row, each.height);
    }
    box.width = std::max(widest, 2 * kCardWidth) + 2 * kBoxPad;
    box.height = kBoxHead + y + row + 2 * kBoxPad;
  }

  void Legend(int x, int y) {
    for (const UseColour& use : kUses) {
      out_ +=
          fmt::format("<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{}\"/>",
                      x, y - 10, use.fill);
      Text(x + 17, y, 12, "#444", use.word);
      x += 80;
    }
  }

  void Text(int x, int y, int size, std::string_view colour, std::string_view text,
            bool bold = false) {
    out_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\"{}>{}</text>\n", x, y,
                        size, colour, bold ? " font-weight=\"600\"" : "", XmlText(text));
  }

  void Bar(const GpuCounts& gpus, int x, int y, int width) {
    out_ +=
        fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"9\" rx=\"3\" fill=\"#e4e4e1\"/>",
                    x, y, width);
    int64_t before = 0;
    for (const UseColour& use : kUses) {
      const int64_t count = gpus.*use.count;
      if (count > 0 && gpus.total > 0) {
        const auto begin = static_cast<int>(before * width / gpus.total);
        before += count;
        const auto end =
            static_cast<int>(std::min<int64_t>(before, gpus.total) * width / gpus.total);
        out_ +=
            fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"9\" rx=\"3\" fill=\"{}\"/>",
                        x + begin, y, std::max(2, end - begin), use.fill);
      }
    }
    out_ += "\n";
  }

  // A pile shows the edges of those behind.
  void Frame(const Box& box, int x, int y, int depth) {
    const std::string_view fill = depth % 2 == 0 ? "#ffffff" : "#f4f6f8";
    const int behind = box.pile > 2 ? 2 : box.pile > 1 ? 1 : 0;
    for (int i = behind; i >= 0; --i) {
      out_ += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"7\" fill=\"{}\" "
          "stroke=\"#b9c0c8\"/>",
          x + 3 * i, y + 3 * i, box.width - 6, box.height - 6, fill);
    }
    out_ += "\n";
  }

  void Draw(const Box& box, int x, int y, int depth) {
    Frame(box, x, y, depth);
    const bool card = box.below.empty();
    const int inside = box.width - 6 - 2 * kBoxPad;
    Text(x + kBoxPad, y + 21, depth == 0 ? 15 : 13, "#1d2733",
         card ? CutToWidth(box.title, kNameColumns) : box.title, true);
    if (card) {
      Bar(box.gpus, x + kBoxPad, y + 29, inside);
      Text(x + kBoxPad, y + 53, 11, "#44505c", CutToWidth(box.counts, kNameColumns + 4));
      if (!box.names.empty()) {
        Text(x + kBoxPad, y + 67, 10, "#7b8794", CutToWidth(box.names, kNameColumns + 6));
      }
      return;
    }
    const std::string side = box.names.empty() ? box.counts : box.counts + "  " + box.names;
    Bar(box.gpus, x + kBoxPad, y + 29, inside);
    Text(x + kBoxPad, y + 53, 11, "#44505c", CutToWidth(side, static_cast<size_t>(inside) / 6));
    int at_x = 0;
    int at_y = kBoxHead + kBoxPad;
    int row = 0;
    for (const Box& each : box.below) {
      if (at_x > 0 && at_x + each.width > kInnerWidth) {
        at_x = 0;
        at_y += row + kBoxGap;
        row = 0;
      }
      Draw(each, x + kBoxPad + at_x, y + at_y + 4, depth + 1);
      at_x += each.width + kBoxGap;
      row = std::max(row, each.height);
    }
  }

  std::string out_;
};

class DotWriter {
 public:
  std::string Write(const Box& root) {
    out_ =
        "digraph topology {\n  graph [rankdir=LR, nodesep=0.15];\n"
        "  node [shape=box, style=\"rounded,filled\", fillcolor=\"#ffffff\", "
        "fontname=\"sans-serif\", fontsize=11];\n";
    Draw(root);
    return out_ + "}\n";
  }

 private:
  size_t Draw(const Box& box) {
    const size_t id = next_++;
    const std::string names =
        box.names.empty() ? "" : "\\n" + DotText(CutToWidth(Escaped(box.names), 40));
    const std::string_view fill = box.gpus.faulty > 0  ? "#f6d9d4"
                                  : box.gpus.free == 0 ? "#d7e3f4"
                                  : box.gpus.held > 0  ? "#eef3fa"
                                                       : "#e6f3e6";
    out_ +=
        fmt::format("  d{} [label=\"{}\\n{}{}\", fillcolor=\"{}\"{}];\n", id, DotText(box.title),
                    DotText(box.counts), names, fill, box.pile > 1 ? ", peripheries=2" : "");
    for (const Box& each : box.below) {
      const size_t child = Draw(each);
      out_ += fmt::format("  d{} -> d{};\n", id, child);
    }
    return id;
  }

  std::string out_;
  size_t next_ = 0;
};

bool IsEmptyTree(const TopologyTree& tree) {
  return tree.domains.empty() || tree.domains.back().empty() || tree.domains.front().empty();
}

Box RootOf(const TopologyTree& tree) {
  if (IsEmptyTree(tree)) {
    return {.title = "no GPU node is known", .counts = "0 of 0 GPUs free"};
  }
  return BoxBuilder(tree).Build();
}

}  // namespace

std::string TopologySvg(const TopologyTree& tree) {
  return SvgWriter().Write(RootOf(tree));
}

std::string TopologyDot(const TopologyTree& tree) {
  return DotWriter().Write(RootOf(tree));
}

}  // namespace asterism::cli
