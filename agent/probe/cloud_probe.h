// File: agent/probe/cloud_probe.h
//
// Where a cloud says that this machine stands, from its metadata service: steps from the outermost
// to the innermost. Off unless a cloud is named; asked rarely, with a second for each question.
//
//   CloudProbe probe({.cloud = Cloud::kOci});
//
// AWS tells the zone, the placement group and its partition; its network nodes are known to an API
// of the region and to node labels only, which is a gap here. Google tells cluster, block, subblock
// and host. Oracle tells island, network block, local block and GPU memory fabric.
//
// A value that is empty, null or of the wrong type is unknown, never a place.
//
// Thread-safety: the parsers are pure; the probe as Probe. Cost: one to four small requests every
// ten minutes.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/probe/probe.h"

namespace asterism::agent {

inline constexpr size_t kCloudAnswerMax = size_t{64} << 10;

enum class Cloud { kAws, kGcp, kOci };

using PlaceSteps = std::vector<std::pair<std::string, std::string>>;

// {"cluster": "..", "block": "..", "subblock": "..", "host": ".."}
absl::StatusOr<PlaceSteps> ParseGcpHostTopology(std::string_view text);
// "/cluster/block/host", which older machines have instead.
absl::StatusOr<PlaceSteps> ParseGcpPhysicalHost(std::string_view text);
// {"customerHPCIslandId": "..", "customerNetworkBlock": .., ...}
absl::StatusOr<PlaceSteps> ParseOciTopology(std::string_view text);

// A name without blanks and of at most 256 characters; else "".
std::string PlaceValue(std::string_view text);

struct CloudOptions {
  Cloud cloud = Cloud::kAws;
  std::string url;  // of the metadata service; empty: the cloud's own
  absl::Duration timeout = absl::Seconds(1);
};

class CloudProbe final : public Probe {
 public:
  explicit CloudProbe(CloudOptions options, absl::Duration period = absl::Minutes(10));
  ProbeResult Run() override;

 private:
  absl::StatusOr<PlaceSteps> AskAws(std::vector<std::string>& gaps) const;
  absl::StatusOr<PlaceSteps> AskGcp() const;
  absl::StatusOr<PlaceSteps> AskOci() const;

  const CloudOptions options_;
};

}  // namespace asterism::agent
