#include "topology/export_text.h"

#include <algorithm>

#include "base/hash.h"
#include "fmt/format.h"
#include "topology/host_list.h"
#include "topology/node_labels.h"

namespace asterism::topology {
namespace {

constexpr size_t kLabelValueMax = 63;  // Kubernetes, content.IsLabelValue

bool IsAlnum(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9');
}

std::string Hashed(std::string_view value) {
  return fmt::format("x{:016x}", base::Fnv1a(value));
}

// Lower-case letters, digits and '-', as object names must be.
std::string ObjectName(std::string_view value) {
  const bool fits =
      !value.empty() && value.size() <= kLabelValueMax && IsAlnum(value.front()) &&
      IsAlnum(value.back()) && std::all_of(value.begin(), value.end(), [](char letter) {
        return (IsAlnum(letter) && !(letter >= 'A' && letter <= 'Z')) || letter == '-';
      });
  return fits ? std::string(value) : Hashed(value);
}

// Without what separates names in Slurm's files.
std::string SlurmName(std::string_view value) {
  return !value.empty() && value.find_first_of(" \t\r\n,=[]#\"'\\/") == std::string_view::npos
             ? std::string(value)
             : Hashed(value);
}

std::vector<std::string> NodeNames(const Cluster& cluster, NodeRange range) {
  std::vector<std::string> names;
  for (size_t node = range.begin.index(); node < range.end.index(); ++node) {
    names.push_back(cluster.node_name(NodeId(node)));
  }
  return names;
}

size_t InnerLevels(const Cluster& cluster) {
  return cluster.level_count() > 2 ? cluster.level_count() - 2 : 0;
}

template <typename Visit>
void ForEachNamed(const Cluster& cluster, size_t level, Visit visit) {
  for (size_t i = 0; i < cluster.domain_count(level); ++i) {
    if (cluster.named(level, DomainId(i))) {
      visit(DomainId(i), cluster.domain_name(level, DomainId(i)));
    }
  }
}

// The named domains of the level below, of a domain of `level` >= 2.
std::vector<std::string> ChildNames(const Cluster& cluster, size_t level, DomainId domain) {
  std::vector<std::string> names;
  const std::span<const uint32_t> first = cluster.FirstChildren(level);
  for (uint32_t child = first[domain.index()]; child < first[domain.index() + 1]; ++child) {
    if (cluster.named(level - 1, DomainId(child))) {
      names.push_back(cluster.domain_name(level - 1, DomainId(child)));
    }
  }
  return names;
}

std::vector<NodeLabels> LabelsWith(const Cluster& cluster, auto key_of) {
  std::vector<NodeLabels> nodes;
  for (size_t node = 0; node < cluster.node_count(); ++node) {
    NodeLabels& labels = nodes.emplace_back();
    labels.node = cluster.node_name(NodeId(node));
    for (size_t level = 1; level <= InnerLevels(cluster); ++level) {
      const DomainId domain = cluster.DomainOf(level, NodeId(node));
      if (cluster.named(level, domain)) {
        labels.labels.emplace_back(key_of(level), LabelValue(cluster.domain_name(level, domain)));
      }
    }
  }
  return nodes;
}

}  // namespace

std::string LabelValue(std::string_view value) {
  const bool fits = !value.empty() && value.size() <= kLabelValueMax && IsAlnum(value.front()) &&
                    IsAlnum(value.back()) &&
                    std::all_of(value.begin(), value.end(), [](char letter) {
                      return IsAlnum(letter) || letter == '.' || letter == '_' || letter == '-';
                    });
  return fits ? std::string(value) : Hashed(value);
}

std::vector<NodeLabels> DomainLabels(const Cluster& cluster) {
  return LabelsWith(cluster, [&cluster](size_t level) {
    return fmt::format("{}{}", kDomainLabelPrefix, cluster.level_name(level));
  });
}

std::vector<NodeLabels> TopographLabels(const Cluster& cluster) {
  return LabelsWith(
      cluster, [](size_t level) { return fmt::format("fabric.topograph.run/tier-{}", level - 1); });
}

std::string SlurmTree(const Cluster& cluster) {
  std::string text;
  const size_t inner = InnerLevels(cluster);
  if (inner == 0) {
    return fmt::format(
        "SwitchName=cluster Nodes={}\n",
        CompressHostList(NodeNames(cluster, {NodeId(0), NodeId(cluster.node_count())})));
  }
  ForEachNamed(cluster, 1, [&](DomainId domain, const std::string& name) {
    text += fmt::format("SwitchName={} Nodes={}\n", SlurmName(name),
                        CompressHostList(NodeNames(cluster, cluster.NodesOf(1, domain))));
  });
  const auto add = [&](const std::string& name, std::vector<std::string> children) {
    for (std::string& child : children) {
      child = SlurmName(child);
    }
    if (!children.empty()) {
      text +=
          fmt::format("SwitchName={} Switches={}\n", SlurmName(name), CompressHostList(children));
    }
  };
  for (size_t level = 2; level <= inner; ++level) {
    ForEachNamed(cluster, level, [&](DomainId domain, const std::string& name) {
      add(name, ChildNames(cluster, level, domain));
    });
  }
  add(cluster.level_name(inner + 1), ChildNames(cluster, inner + 1, DomainId(0)));
  return text;
}

std::string SlurmBlocks(const Cluster& cluster, size_t level) {
  std::string text;
  size_t smallest = cluster.node_count();
  size_t all = 0;
  ForEachNamed(cluster, level, [&](DomainId domain, const std::string& name) {
    const NodeRange nodes = cluster.NodesOf(level, domain);
    smallest = std::min(smallest, nodes.size());
    all += nodes.size();
    text += fmt::format("BlockName={} Nodes={}\n", SlurmName(name),
                        CompressHostList(NodeNames(cluster, nodes)));
  });
  std::string sizes;
  for (size_t size = std::max<size_t>(1, smallest); size <= all; size *= 2) {
    sizes += fmt::format("{}{}", sizes.empty() ? "" : ",", size);
  }
  return sizes.empty() ? text : text + fmt::format("BlockSizes={}\n", sizes);
}

std::string HyperNodes(const Cluster& cluster) {
  std::string text;
  const auto add = [&text](const std::string& name, size_t tier, std::string_view type,
                           const std::vector<std::string>& members) {
    if (members.empty()) {
      return;
    }
    text += fmt::format(
        "{}apiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata:\n"
        "  name: {}\nspec:\n  tier: {}\n  members:\n",
        text.empty() ? "" : "---\n", ObjectName(name), tier);
    for (const std::string& member : members) {
      text += fmt::format("  - type: {}\n    selector:\n      exactMatch:\n        name: \"{}\"\n",
                          type, type == "Node" ? member : ObjectName(member));
    }
  };
  const size_t inner = InnerLevels(cluster);
  for (size_t level = 1; level <= inner; ++level) {
    ForEachNamed(cluster, level, [&](DomainId domain, const std::string& name) {
      add(name, level, level == 1 ? "Node" : "HyperNode",
          level == 1 ? NodeNames(cluster, cluster.NodesOf(1, domain))
                     : ChildNames(cluster, level, domain));
    });
  }
  if (inner > 0) {
    add(cluster.level_name(inner + 1), inner + 1, "HyperNode",
        ChildNames(cluster, inner + 1, DomainId(0)));
  }
  return text;
}

std::string KueueTopology(const Cluster& cluster, std::string_view name) {
  std::string text = fmt::format(
      "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Topology\nmetadata:\n  name: {}\nspec:\n  "
      "levels:\n",
      ObjectName(name));
  for (size_t level = InnerLevels(cluster); level >= 1; --level) {
    text += fmt::format("  - nodeLabel: \"{}{}\"\n", kDomainLabelPrefix, cluster.level_name(level));
  }
  return text + "  - nodeLabel: \"kubernetes.io/hostname\"\n";
}

}  // namespace asterism::topology
