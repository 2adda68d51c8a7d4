#include "agent/probe/pci_overlay.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "agent/probe/sysfs_text.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "topology/import/xml_tree.h"

namespace asterism::agent {
namespace {

constexpr size_t kPlacesMax = 1 << 16;

class OverlayReader {
 public:
  explicit OverlayReader(PciOverlay& overlay) : overlay_(overlay) {}

  absl::Status ReadCpu(const topology::XmlElement& cpu) {
    const std::optional<int64_t> numa = NumberOf(cpu.Attribute("numaid"));
    numa_ = numa.has_value() && *numa >= 0 && *numa < 4096 ? static_cast<int>(*numa) : -1;
    chain_.clear();
    return Walk(cpu);
  }

 private:
  absl::Status Walk(const topology::XmlElement& parent) {
    for (const topology::XmlElement& child : parent.children) {
      if (child.name == "nic") {
        RETURN_IF_ERROR(Walk(child));
      }
      if (child.name != "pci") {
        continue;
      }
      const std::string_view written = child.Attribute("busid");
      const std::optional<std::string> address = NormalPciAddress(written);
      if (!address.has_value()) {
        return absl::InvalidArgumentError(
            fmt::format("line {}: busid \"{}\" is no PCI address such as 0000:1b:00.0", child.line,
                        written.substr(0, 40)));
      }
      if (chain_.size() == kOverlayDepthMax || overlay_.places.size() == kPlacesMax) {
        return absl::InvalidArgumentError(
            fmt::format("line {}: more than {} bridges in a chain, or {} devices", child.line,
                        kOverlayDepthMax, kPlacesMax));
      }
      PciPlace place;
      place.bridges = chain_;
      place.numa = numa_;
      if (!overlay_.places.emplace(*address, std::move(place)).second) {
        return absl::InvalidArgumentError(
            fmt::format("line {}: {} is there twice", child.line, *address));
      }
      chain_.push_back(*address);
      RETURN_IF_ERROR(Walk(child));
      chain_.pop_back();
    }
    return absl::OkStatus();
  }

  PciOverlay& overlay_;
  std::vector<std::string> chain_;
  int numa_ = -1;
};

}  // namespace

absl::StatusOr<PciOverlay> ParsePciOverlay(std::string_view text) {
  ASSIGN_OR_RETURN(const topology::XmlElement root, topology::ReadXmlTree(text));
  if (root.name != "system") {
    return absl::InvalidArgumentError(
        fmt::format("line {}: the root is <{}>: a topology file of NCCL begins with <system>",
                    root.line, root.name.substr(0, 40)));
  }
  PciOverlay overlay;
  OverlayReader reader(overlay);
  for (const topology::XmlElement& child : root.children) {
    if (child.name == "cpu") {
      RETURN_IF_ERROR(reader.ReadCpu(child));
    }
  }
  if (overlay.places.empty()) {
    return absl::InvalidArgumentError("no <pci> element below a <cpu>: it says nothing");
  }
  return overlay;
}

PciOverlayProbe::PciOverlayProbe(std::string path, absl::Duration period)
    : Probe("overlay", period), path_(std::move(path)) {}

ProbeResult PciOverlayProbe::Run() {
  ProbeResult result;
  const absl::StatusOr<std::string> text = base::ReadFile(path_, kOverlayBytesMax);
  if (!text.ok()) {
    return ProbeResult::Failed(std::string(text.status().message()));
  }
  absl::StatusOr<PciOverlay> overlay = ParsePciOverlay(*text);
  if (!overlay.ok()) {
    return ProbeResult::Failed(
        fmt::format("{}: {}", path_, std::string(overlay.status().message())));
  }
  result.overlay = *std::move(overlay);
  return result;
}

}  // namespace asterism::agent
