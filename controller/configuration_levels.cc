#include "controller/configuration_levels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "controller/kubernetes_names.h"

namespace asterism::controller {
namespace {

using LevelKind = topology::LevelSource::Kind;

constexpr size_t kLevelCountMax = 16;
constexpr double kGigabytesPerSecondMax = 1e5;
constexpr double kLatencyMicrosecondsMax = 1e6;
constexpr int kSliceNodesMax = 4096;

bool IsLevelName(std::string_view name) {
  return !name.empty() && name.size() <= 32 &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string_view::npos;
}

// A key of a level, or of its source, that nobody knows.
void RefuseOtherKeys(const YamlNode& map, std::string_view place,
                     const std::vector<std::string_view>& known, Complaints& complaints) {
  for (const auto& [key, value] : map.fields) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      complaints.Add(fmt::format("{}.{}", place, key),
                     fmt::format("is not a known field (line {})", value.line),
                     fmt::format("did you mean {}?", NearestName(key, known)));
    }
  }
}

// Sources that need no more than their name.
struct NamedSource {
  std::string_view name;
  LevelKind kind;
};
constexpr NamedSource kNamedSources[] = {
    {"Auto", LevelKind::kAuto},           {"NVLink", LevelKind::kNvlink},
    {"LeafGroup", LevelKind::kLeafGroup}, {"Slice", LevelKind::kSlice},
    {"Tier", LevelKind::kTier},           {"Declared", LevelKind::kDeclared}};

std::vector<std::string_view> SourceNames() {
  std::vector<std::string_view> names;
  for (const NamedSource& source : kNamedSources) {
    names.push_back(source.name);
  }
  return names;
}

void ReadNamedSource(const YamlNode& source, const std::string& place, LevelConfiguration& level,
                     Complaints& complaints) {
  for (const NamedSource& named : kNamedSources) {
    if (named.name == source.text) {
      level.kind = named.kind;
      return;
    }
  }
  const std::vector<std::string_view> names = SourceNames();
  complaints.Add(place, fmt::format("has no label, and {} is no source", Shown(source.text)),
                 fmt::format("use one of {} ({} is nearest), {{slice: <nodes>}}, or {{label: "
                             "<label of the nodes>}}",
                             fmt::join(names, ", "), NearestName(source.text, names)));
}

void ReadSliceSource(const YamlNode& slice, const std::string& place, LevelConfiguration& level,
                     Complaints& complaints) {
  int nodes = 0;
  if (slice.kind != YamlNode::Kind::kScalar || slice.quoted ||
      !absl::SimpleAtoi(slice.text, &nodes) || nodes < 1 || nodes > kSliceNodesMax) {
    complaints.Add(place, fmt::format("is not a number of nodes from 1 to {}", kSliceNodesMax),
                   "write how many nodes of a leaf group one slice has, for example {slice: 4}");
    return;
  }
  level.kind = LevelKind::kSlice;
  level.slice_nodes = static_cast<size_t>(nodes);
}

void ReadLabelSource(const YamlNode& label, const std::string& place, LevelConfiguration& level,
                     Complaints& complaints) {
  if (!IsLabelKey(label.text)) {
    complaints.Add(place, fmt::format("{} is not a label key", Shown(label.text)),
                   "use [prefix/]name, for example asterism.dev/declared-supernode");
  } else if (label.text.starts_with("asterism.dev/domain-")) {
    complaints.Add(place,
                   fmt::format("{} is written by Asterism itself and never read", label.text),
                   fmt::format("use asterism.dev/declared-{} or a label of your own", level.name));
  } else {
    level.label = label.text;
  }
}

// A number above 0 and at most `largest`; what is absent stays as it is.
void ReadMeasure(const YamlNode& level, const std::string& place, std::string_view key,
                 double largest, double& value, Complaints& complaints) {
  const YamlNode* node = level.Find(key);
  if (node == nullptr || node->kind == YamlNode::Kind::kNull) {
    return;
  }
  double number = 0;
  const bool is_number = node->kind == YamlNode::Kind::kScalar && !node->quoted &&
                         absl::SimpleAtod(node->text, &number) && std::isfinite(number);
  if (!is_number || number <= 0 || number > largest) {
    complaints.Add(
        fmt::format("{}.{}", place, key),
        is_number ? fmt::format("{} is out of range", node->text) : std::string("is not a number"),
        fmt::format("use a number above 0, at most {}, or leave it out", largest));
    return;
  }
  value = number;
}

void ReadLevelSource(const YamlNode& source, const std::string& place, LevelConfiguration& level,
                     Complaints& complaints) {
  if (source.kind == YamlNode::Kind::kScalar) {
    ReadNamedSource(source, place, level, complaints);
    return;
  }
  const YamlNode* label = source.kind == YamlNode::Kind::kMap ? source.Find("label") : nullptr;
  const YamlNode* slice = source.kind == YamlNode::Kind::kMap ? source.Find("slice") : nullptr;
  if (label != nullptr && slice != nullptr) {
    complaints.Add(place, "has a label and a slice", "keep one of them");
    return;
  }
  if (slice == nullptr && (label == nullptr || label->kind != YamlNode::Kind::kScalar)) {
    complaints.Add(place, "has no label",
                   fmt::format("write source: {{label: <label of the nodes>}}, {{slice: <nodes>}}, "
                               "or one of {}",
                               fmt::join(SourceNames(), ", ")));
    return;
  }
  RefuseOtherKeys(source, place, {"label", "slice"}, complaints);
  if (slice != nullptr) {
    ReadSliceSource(*slice, place + ".slice", level, complaints);
  } else {
    ReadLabelSource(*label, place + ".label", level, complaints);
  }
}

std::string SourceText(const LevelConfiguration& level) {
  if (level.kind == LevelKind::kLabel) {
    return fmt::format("{{label: {}}}", level.label);
  }
  if (level.kind == LevelKind::kSlice) {
    return fmt::format("{{slice: {}}}", level.slice_nodes);
  }
  for (const NamedSource& source : kNamedSources) {
    if (source.kind == level.kind) {
      return std::string(source.name);
    }
  }
  return "";
}

void ReadLevel(const YamlNode& node, const std::string& place, bool outermost_or_innermost,
               LevelConfiguration& level, Complaints& complaints) {
  const YamlNode* name = node.Find("name");
  if (node.kind != YamlNode::Kind::kMap || name == nullptr ||
      name->kind != YamlNode::Kind::kScalar || !IsLevelName(name->text)) {
    complaints.Add(place + ".name", "is missing or not a level name",
                   "use 1 to 32 lower-case letters, digits and '-'");
    return;
  }
  level.name = name->text;
  RefuseOtherKeys(node, place, {"name", "source", "gigabytesPerSecond", "latencyMicroseconds"},
                  complaints);
  ReadMeasure(node, place, "gigabytesPerSecond", kGigabytesPerSecondMax, level.gigabytes_per_second,
              complaints);
  ReadMeasure(node, place, "latencyMicroseconds", kLatencyMicrosecondsMax, level.latency_us,
              complaints);
  const YamlNode* source = node.Find("source");
  const bool has_source = source != nullptr && source->kind != YamlNode::Kind::kNull;
  if (outermost_or_innermost && has_source) {
    complaints.Add(place + ".source", "is not allowed on the first and the last level",
                   "remove it: the first level is the node, the last one the whole cluster");
  } else if (!outermost_or_innermost && !has_source) {
    complaints.Add(place + ".source", "is missing",
                   fmt::format("say which label holds the {} of a node, for example source: "
                               "{{label: asterism.dev/declared-{}}}, or source: Auto",
                               level.name, level.name));
  } else if (has_source) {
    ReadLevelSource(*source, place + ".source", level, complaints);
  }
}

std::string LevelToYaml(const LevelConfiguration& level) {
  std::string text = fmt::format("{{name: {}", QuoteYaml(level.name));
  const bool derived = level.kind == LevelKind::kLabel && level.label.empty();
  if (!derived) {
    text += fmt::format(", source: {}", SourceText(level));
  }
  if (level.gigabytes_per_second > 0) {
    text += fmt::format(", gigabytesPerSecond: {}", level.gigabytes_per_second);
  }
  if (level.latency_us > 0) {
    text += fmt::format(", latencyMicroseconds: {}", level.latency_us);
  }
  return text + "}";
}

void ReadLevels(const YamlNode& node, std::string_view path, Configuration& configuration,
                Complaints& complaints) {
  if (node.kind != YamlNode::Kind::kList || node.items.empty() ||
      node.items.size() > kLevelCountMax) {
    complaints.Add(path, "is not a list of levels",
                   fmt::format("give 1 to {} levels, inner to outer, for example [{{name: node}}, "
                               "{{name: cluster}}]",
                               kLevelCountMax));
    return;
  }
  std::set<std::string> names;
  std::set<std::string> labels;
  configuration.levels.assign(node.items.size(), {});
  for (size_t i = 0; i < node.items.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", path, i);
    LevelConfiguration& level = configuration.levels[i];
    ReadLevel(node.items[i], place, i == 0 || i + 1 == node.items.size(), level, complaints);
    if (!level.name.empty() && !names.insert(level.name).second) {
      complaints.Add(place + ".name", fmt::format("{} is there twice", level.name),
                     "give each level a name of its own");
    }
    if (!level.label.empty() && !labels.insert(level.label).second) {
      complaints.Add(place + ".source.label", fmt::format("{} is there twice", level.label),
                     "give each level a label of its own");
    }
  }
}

}  // namespace

FieldValue LevelsValue() {
  return {
      fmt::format("1 to {} levels", kLevelCountMax), ReadLevels,
      [](const Configuration& configuration) {
        std::vector<std::string> levels;
        for (const LevelConfiguration& level : configuration.levels) {
          levels.push_back(LevelToYaml(level));
        }
        return fmt::format("[{}]", fmt::join(levels, ", "));
      },
      [](const Configuration& source, Configuration& target) { target.levels = source.levels; }};
}

}  // namespace asterism::controller
