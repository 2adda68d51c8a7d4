#include "controller/configuration_gpu_products.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/ranges.h"
#include "planner/cluster_spec.h"

namespace asterism::controller {
namespace {

constexpr size_t kGpuProductsMax = 64;
constexpr size_t kLabelValueBytesMax = 63;

// The text of a key; complains and returns nothing where there is none.
std::string_view WordOfEntry(const YamlNode& entry, const std::string& place, std::string_view key,
                             Complaints& complaints) {
  const YamlNode* node = entry.Find(key);
  if (node == nullptr || node->kind != YamlNode::Kind::kScalar || node->text.empty()) {
    complaints.Add(fmt::format("{}.{}", place, key), "is missing",
                   "write {product: NVIDIA-X100, gpu: H100}");
    return {};
  }
  return node->text;
}

void ReadGpuProduct(const YamlNode& entry, const std::string& place,
                    std::vector<GpuProductConfiguration>& products, Complaints& complaints) {
  for (const auto& [key, value] : entry.fields) {
    if (key != "product" && key != "gpu") {
      complaints.Add(fmt::format("{}.{}", place, key),
                     fmt::format("is not a known field (line {})", value.line),
                     "write {product: NVIDIA-X100, gpu: H100}");
    }
  }
  const std::string product(WordOfEntry(entry, place, "product", complaints));
  const std::string gpu(WordOfEntry(entry, place, "gpu", complaints));
  const bool twice = std::any_of(products.begin(), products.end(),
                                 [&product](const auto& each) { return each.product == product; });
  if (product.size() > kLabelValueBytesMax) {
    complaints.Add(place + ".product", "is no value of a label",
                   fmt::format("use at most {} characters", kLabelValueBytesMax));
  } else if (!product.empty() && twice) {
    complaints.Add(place + ".product", fmt::format("{} is there twice", Shown(product)),
                   "remove one");
  } else if (!gpu.empty() && planner::FindGpu(gpu) == nullptr) {
    complaints.Add(place + ".gpu", fmt::format("{} is no GPU that the planner knows", Shown(gpu)),
                   fmt::format("use one of {}", fmt::join(planner::GpuNames(), ", ")));
  } else if (!product.empty() && !gpu.empty()) {
    products.push_back({product, gpu});
  }
}

void ReadGpuProducts(const YamlNode& node, std::string_view path, Configuration& configuration,
                     Complaints& complaints) {
  if (node.kind != YamlNode::Kind::kList || node.items.size() > kGpuProductsMax) {
    complaints.Add(path, "is not a list of products",
                   fmt::format("give at most {} entries {{product: NVIDIA-X100, gpu: H100}}",
                               kGpuProductsMax));
    return;
  }
  std::vector<GpuProductConfiguration> products;
  for (size_t i = 0; i < node.items.size(); ++i) {
    ReadGpuProduct(node.items[i], fmt::format("{}[{}]", path, i), products, complaints);
  }
  configuration.gpu_products = std::move(products);
}

}  // namespace

FieldValue GpuProductsValue() {
  return {fmt::format("at most {} of {{product, gpu}}", kGpuProductsMax), ReadGpuProducts,
          [](const Configuration& configuration) {
            std::vector<std::string> entries;
            for (const GpuProductConfiguration& each : configuration.gpu_products) {
              entries.push_back(fmt::format("{{product: {}, gpu: {}}}", QuoteYaml(each.product),
                                            QuoteYaml(each.gpu)));
            }
            return fmt::format("[{}]", fmt::join(entries, ", "));
          },
          [](const Configuration& source, Configuration& target) {
            target.gpu_products = source.gpu_products;
          }};
}

}  // namespace asterism::controller
