#include "agent/probe/measurement_merge.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace asterism::agent {
namespace {

void AppendGpus(const v1::MeasuredGpus& more, v1::MeasuredGpus& gpus) {
  const auto offset = static_cast<uint32_t>(gpus.gpus_size());
  for (const v1::MeasuredGpu& gpu : more.gpus()) {
    *gpus.add_gpus() = gpu;
  }
  for (const v1::GpuPair& pair : more.pairs()) {
    v1::GpuPair& added = *gpus.add_pairs();
    added = pair;
    added.set_first(pair.first() + offset);
    added.set_second(pair.second() + offset);
  }
}

// Between two GPUs: the driver's word, unless it rests on NUMA nodes that nobody knows; else the
// tree's.
v1::PciDistance PairDistance(const PciTree& tree, const std::string& left, const std::string& right,
                             v1::PciDistance told) {
  const PciPlace* const first = tree.Find(left);
  const PciPlace* const second = tree.Find(right);
  if (tree.overlaid) {
    return tree.Distance(left, right);  // the driver sees the guest's tree
  }
  const bool by_numa = told == v1::PCI_NODE || told == v1::PCI_SYS;
  if (by_numa && first != nullptr && second != nullptr && (first->numa < 0 || second->numa < 0)) {
    return v1::PCI_UNKNOWN;
  }
  return told != v1::PCI_UNKNOWN ? told : tree.Distance(left, right);
}

void PlaceGpus(const PciTree& tree, v1::MeasuredGpus& gpus) {
  for (v1::MeasuredGpu& gpu : *gpus.mutable_gpus()) {
    if (const PciPlace* const place = tree.Find(gpu.pci_address())) {
      gpu.set_numa_node(place->numa);
    }
  }
  std::map<std::pair<uint32_t, uint32_t>, v1::GpuPair> told;
  for (const v1::GpuPair& pair : gpus.pairs()) {
    told[{pair.first(), pair.second()}] = pair;
  }
  gpus.clear_pairs();
  for (int first = 0; first < gpus.gpus_size(); ++first) {
    for (int second = first + 1; second < gpus.gpus_size(); ++second) {
      const auto key = std::pair(static_cast<uint32_t>(first), static_cast<uint32_t>(second));
      v1::GpuPair pair = told[key];
      pair.set_first(key.first);
      pair.set_second(key.second);
      pair.set_distance(PairDistance(tree, gpus.gpus(first).pci_address(),
                                     gpus.gpus(second).pci_address(), pair.distance()));
      if (pair.distance() != v1::PCI_UNKNOWN || pair.peer_refused()) {
        *gpus.add_pairs() = pair;
      }
    }
  }
}

void PlaceNics(const PciTree& tree, const v1::MeasuredGpus& gpus, v1::MeasuredNics& nics) {
  for (v1::MeasuredNic& nic : *nics.mutable_nics()) {
    if (const PciPlace* const place = tree.Find(nic.pci_address())) {
      nic.set_numa_node(place->numa);
    }
    for (const v1::MeasuredGpu& gpu : gpus.gpus()) {
      nic.add_gpu_distances(tree.Distance(gpu.pci_address(), nic.pci_address()));
    }
  }
  nics.set_source(tree.overlaid ? v1::MeasuredNics::OVERLAY : v1::MeasuredNics::SYSFS);
  std::sort(nics.mutable_nics()->begin(), nics.mutable_nics()->end(),
            [](const v1::MeasuredNic& left, const v1::MeasuredNic& right) {
              return std::tuple(left.pci_address(), left.device()) <
                     std::tuple(right.pci_address(), right.device());
            });
}

// A list of GPUs is told when all drivers have been heard: that of one would read as "no others".
bool TellsGpus(std::string_view probe) {
  return probe == "nvml" || probe == "kfd" || probe == "ascend";
}

constexpr size_t kPrintableMax = 1024;

std::string Printable(std::string text) {
  text.resize(std::min(text.size(), kPrintableMax));
  std::ranges::replace_if(
      text, [](char letter) { return letter < 0x20 || letter > 0x7e; }, '?');
  return text;
}

}  // namespace

void MakePrintable(google::protobuf::Message& message) {
  using Field = google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const Field*> fields;
  reflection.ListFields(message, &fields);
  for (const Field* field : fields) {
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->cpp_type() == Field::CPPTYPE_MESSAGE) {
        MakePrintable(field->is_repeated() ? *reflection.MutableRepeatedMessage(&message, field, i)
                                           : *reflection.MutableMessage(&message, field));
      } else if (field->cpp_type() == Field::CPPTYPE_STRING && field->is_repeated()) {
        reflection.SetRepeatedString(&message, field, i,
                                     Printable(reflection.GetRepeatedString(message, field, i)));
      } else if (field->cpp_type() == Field::CPPTYPE_STRING) {
        reflection.SetString(&message, field, Printable(reflection.GetString(message, field)));
      }
    }
  }
}

v1::NodeMeasurement MergeMeasurement(
    const std::vector<std::pair<std::string_view, const ProbeResult*>>& results) {
  v1::NodeMeasurement measured;
  PciTree tree;
  const PciOverlay* overlay = nullptr;
  v1::MeasuredPlace inner;
  bool all_gpus = true;
  for (const auto& [name, result] : results) {
    if (result == nullptr || !result->problem.empty()) {
      all_gpus = all_gpus && !TellsGpus(name);
      continue;
    }
    const v1::NodeMeasurement& parts = result->parts;
    if (parts.has_gpus()) {
      AppendGpus(parts.gpus(), *measured.mutable_gpus());
    }
    if (parts.has_nvlink_domain()) {
      *measured.mutable_nvlink_domain() = parts.nvlink_domain();
    }
    if (parts.has_nics()) {
      measured.mutable_nics()->mutable_nics()->MergeFrom(parts.nics().nics());
    }
    if (parts.has_neighbors()) {
      measured.mutable_neighbors()->MergeFrom(parts.neighbors());
    }
    if (parts.has_place()) {
      // A cloud's steps are outside of those of a rack.
      (name.starts_with("cloud") ? *measured.mutable_place() : inner).MergeFrom(parts.place());
      measured.mutable_place();
    }
    if (parts.has_numa()) {
      *measured.mutable_numa() = parts.numa();
    }
    tree = result->pci.has_value() ? *result->pci : tree;
    overlay = result->overlay.has_value() ? &*result->overlay : overlay;
  }
  if (measured.has_place()) {
    measured.mutable_place()->MergeFrom(inner);
  }
  if (!all_gpus) {
    measured.clear_gpus();
  }
  if (overlay != nullptr) {
    tree.Apply(*overlay);
  }
  if (measured.has_gpus()) {
    PlaceGpus(tree, *measured.mutable_gpus());
  }
  if (measured.has_nics()) {
    PlaceNics(tree, measured.gpus(), *measured.mutable_nics());
  }
  return measured;
}

}  // namespace asterism::agent
