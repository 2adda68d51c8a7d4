#include "operator/pod_needs.h"

#include <utility>

#include "base/status_macros.h"
#include "kube/decoder.h"
#include "nlohmann/json.hpp"
#include "operator/direct_commit.h"

namespace asterism::operators {

absl::StatusOr<PodNeeds> ReadPodNeeds(std::string_view body) {
  ASSIGN_OR_RETURN(kube::Pod pod, kube::DecodePod({kube::Encoding::kJson, body}));
  const nlohmann::json object = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  PodNeeds needs{.requests = std::move(pod.requests)};
  if (const auto spec = object.find("spec"); object.is_object() && spec != object.end()) {
    needs.fit = ReadTemplateFit(*spec);
    needs.not_direct = WhyNotDirect(*spec);
  }
  return needs;
}

}  // namespace asterism::operators
