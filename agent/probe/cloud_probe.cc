#include "agent/probe/cloud_probe.h"

#include <algorithm>
#include <cctype>

#include "absl/status/status.h"
#include "agent/probe/metadata_http.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"

namespace asterism::agent {
namespace {

using Json = nlohmann::json;

const char* CloudName(Cloud cloud) {
  switch (cloud) {
    case Cloud::kAws:
      return "cloud-aws";
    case Cloud::kGcp:
      return "cloud-gcp";
    case Cloud::kOci:
      return "cloud-oci";
  }
  return "cloud";
}

std::string UrlOf(const CloudOptions& options) {
  if (!options.url.empty()) {
    return options.url;
  }
  return options.cloud == Cloud::kGcp ? "http://metadata.google.internal"
                                      : "http://169.254.169.254";
}

// Members of a flat object of texts, in the given order. The answers nest nowhere.
absl::StatusOr<PlaceSteps> StepsOf(
    std::string_view text, std::initializer_list<std::pair<const char*, const char*>> keys) {
  const bool deep = std::ranges::count(text, '[') + std::ranges::count(text, '{') > 64;
  const Json answer = deep ? Json() : Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) {
    return absl::InvalidArgumentError("the answer is no JSON object");
  }
  PlaceSteps steps;
  for (const auto& [key, name] : keys) {
    const auto found = answer.find(key);
    const std::string value =
        found != answer.end() && found->is_string() ? PlaceValue(found->get<std::string>()) : "";
    if (!value.empty()) {
      steps.emplace_back(name, value);
    }
  }
  return steps;
}

}  // namespace

std::string PlaceValue(std::string_view text) {
  const bool good = text.size() <= 256 && std::ranges::all_of(text, [](char letter) {
                      return std::isgraph(static_cast<unsigned char>(letter)) != 0;
                    });
  return good ? std::string(text) : "";
}

absl::StatusOr<PlaceSteps> ParseGcpHostTopology(std::string_view text) {
  return StepsOf(
      text,
      {{"cluster", "cluster"}, {"block", "block"}, {"subblock", "subblock"}, {"host", "host"}});
}

absl::StatusOr<PlaceSteps> ParseGcpPhysicalHost(std::string_view text) {
  constexpr const char* kNames[] = {"cluster", "block", "host"};
  PlaceSteps steps;
  while (!text.empty() && text.back() == '\n') {
    text.remove_suffix(1);
  }
  if (!text.starts_with('/')) {
    return absl::InvalidArgumentError("physical_host does not begin with a slash");
  }
  text.remove_prefix(1);
  for (size_t i = 0;; ++i) {
    const size_t slash = std::min(text.find('/'), text.size());
    const std::string value = PlaceValue(text.substr(0, slash));
    if (i == std::size(kNames) || value.empty()) {
      return absl::InvalidArgumentError("physical_host is not /cluster/block/host");
    }
    steps.emplace_back(kNames[i], value);
    if (slash == text.size()) {
      break;
    }
    text.remove_prefix(slash + 1);
  }
  if (steps.size() != std::size(kNames)) {
    return absl::InvalidArgumentError("physical_host is not /cluster/block/host");
  }
  return steps;
}

absl::StatusOr<PlaceSteps> ParseOciTopology(std::string_view text) {
  return StepsOf(text, {{"customerHPCIslandId", "hpc-island"},
                        {"customerNetworkBlock", "network-block"},
                        {"customerLocalBlock", "local-block"},
                        {"customerGpuMemoryFabric", "gpu-memory-fabric"}});
}

CloudProbe::CloudProbe(CloudOptions options, absl::Duration period)
    : Probe(CloudName(options.cloud), period), options_(std::move(options)) {}

absl::StatusOr<PlaceSteps> CloudProbe::AskAws(std::vector<std::string>& gaps) const {
  const std::string url = UrlOf(options_) + "/latest/";
  ASSIGN_OR_RETURN(const std::string token,
                   AskMetadata({.url = url + "api/token",
                                .headers = {"X-aws-ec2-metadata-token-ttl-seconds: 60"},
                                .put = true,
                                .timeout = options_.timeout,
                                .bytes_max = kCloudAnswerMax}));
  PlaceSteps steps;
  for (const auto& [path, name] : std::initializer_list<std::pair<const char*, const char*>>{
           {"availability-zone-id", "zone"},
           {"group-name", "placement-group"},
           {"partition-number", "partition"}}) {
    const absl::StatusOr<std::string> text =
        AskMetadata({.url = url + "meta-data/placement/" + path,
                     .headers = {"X-aws-ec2-metadata-token: " + PlaceValue(token)},
                     .timeout = options_.timeout,
                     .bytes_max = kCloudAnswerMax});
    if (!text.ok() && text.status().code() != absl::StatusCode::kNotFound) {
      return text.status();
    }
    if (const std::string value = text.ok() ? PlaceValue(*text) : ""; !value.empty()) {
      steps.emplace_back(name, value);
    }
  }
  gaps.emplace_back("the network nodes: they are in DescribeInstanceTopology and in node labels");
  return steps;
}

absl::StatusOr<PlaceSteps> CloudProbe::AskGcp() const {
  const auto ask = [this](const char* attribute) {
    return AskMetadata(
        {.url = UrlOf(options_) + "/computeMetadata/v1/instance/attributes/" + attribute,
         .headers = {"Metadata-Flavor: Google"},
         .timeout = options_.timeout,
         .bytes_max = kCloudAnswerMax});
  };
  absl::StatusOr<std::string> text = ask("physical_host_topology");
  if (text.ok()) {
    return ParseGcpHostTopology(*text);
  }
  if (text.status().code() != absl::StatusCode::kNotFound) {
    return text.status();
  }
  text = ask("physical_host");
  if (text.ok()) {
    return ParseGcpPhysicalHost(*text);
  }
  // Many machines have neither.
  return text.status().code() == absl::StatusCode::kNotFound
             ? absl::StatusOr<PlaceSteps>(PlaceSteps{})
             : text.status();
}

absl::StatusOr<PlaceSteps> CloudProbe::AskOci() const {
  const absl::StatusOr<std::string> text =
      AskMetadata({.url = UrlOf(options_) + "/opc/v2/host/rdmaTopologyData",
                   .headers = {"Authorization: Bearer Oracle"},
                   .timeout = options_.timeout,
                   .bytes_max = kCloudAnswerMax});
  if (text.ok()) {
    return ParseOciTopology(*text);
  }
  return text.status().code() == absl::StatusCode::kNotFound
             ? absl::StatusOr<PlaceSteps>(PlaceSteps{})
             : text.status();
}

ProbeResult CloudProbe::Run() {
  ProbeResult result;
  const absl::StatusOr<PlaceSteps> steps = options_.cloud == Cloud::kAws   ? AskAws(result.gaps)
                                           : options_.cloud == Cloud::kGcp ? AskGcp()
                                                                           : AskOci();
  if (!steps.ok()) {
    return ProbeResult::Failed(std::string(steps.status().message()));
  }
  v1::MeasuredPlace& place = *result.parts.mutable_place();
  for (const auto& [name, value] : *steps) {
    v1::PlaceStep& step = *place.add_steps();
    step.set_name(name);
    step.set_value(value);
  }
  return result;
}

}  // namespace asterism::agent
