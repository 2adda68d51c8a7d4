#include "controller/ledger_page.h"

#include <map>

#include "nlohmann/json.hpp"
#include "operator/pod_names.h"

namespace asterism::controller {
namespace {

using nlohmann::ordered_json;

const char* StateWord(scheduler::BlockState state) {
  switch (state) {
    case scheduler::BlockState::kReserved:
      return "reserved";
    case scheduler::BlockState::kPinned:
      return "pinned";
    case scheduler::BlockState::kBound:
      return "bound";
  }
  return "";
}

ordered_json Amounts(const scheduler::LedgerView& view, const scheduler::ResourceVector& vector) {
  ordered_json amounts = ordered_json::object();
  for (size_t slot = 0; slot < view.resource_names.size(); ++slot) {
    if (vector[slot] != 0) {
      amounts[view.resource_names[slot]] = vector[slot];
    }
  }
  return amounts;
}

// Ids of the devices that the block's pod holds; empty: not known.
const std::vector<std::string>& DevicesOf(const scheduler::GangView& gang,
                                          const scheduler::GangBlockView& block,
                                          const DeviceHolders& holders) {
  static const auto& none = *new std::vector<std::string>();
  const size_t slash = gang.name.find('/');
  if (block.state != scheduler::BlockState::kBound || slash == std::string::npos) {
    return none;
  }
  const kube::ObjectMeta job{.name = gang.name.substr(slash + 1), .uid = gang.uid};
  const auto found = holders.find(gang.name.substr(0, slash + 1) +
                                  operators::PodName(job, block.first_rank, block.epoch));
  return found == holders.end() ? none : found->second;
}

ordered_json GangJson(const scheduler::GangView& gang, const DeviceHolders& holders) {
  ordered_json blocks = ordered_json::array();
  for (const scheduler::GangBlockView& block : gang.blocks) {
    ordered_json entry = {{"firstRank", block.first_rank},
                          {"node", block.node},
                          {"epoch", block.epoch},
                          {"state", StateWord(block.state)},
                          {"pod", block.pod_uid}};
    if (const auto& devices = DevicesOf(gang, block, holders); !devices.empty()) {
      entry["devices"] = devices;
    }
    blocks.push_back(std::move(entry));
  }
  ordered_json spares = ordered_json::array();
  for (const scheduler::Spare& spare : gang.spares) {
    spares.push_back({{"node", spare.node}, {"epoch", spare.epoch}, {"state", "spare"}});
  }
  return {{"uid", gang.uid},
          {"name", gang.name},
          {"queue", gang.queue},
          {"epoch", gang.epoch},
          {"gpusPerBlock", gang.gpus_per_block},
          {"blocks", std::move(blocks)},
          {"spares", std::move(spares)}};
}

}  // namespace

std::string LedgerPage(const scheduler::LedgerView& view, const DeviceHolders& holders,
                       bool leading) {
  ordered_json page = {{"version", view.version}, {"leading", leading}};
  page["nodes"] = ordered_json::array();
  for (const scheduler::NodeView& node : view.nodes) {
    page["nodes"].push_back({{"name", node.name},
                             {"allocatable", Amounts(view, node.allocatable)},
                             {"used", Amounts(view, node.used)},
                             {"usable", node.usable}});
  }
  std::map<std::string_view, const scheduler::GangView*> gangs;
  for (const auto& [uid, gang] : view.gangs) {
    gangs[uid] = gang.get();
  }
  page["gangs"] = ordered_json::array();
  for (const auto& [uid, gang] : gangs) {
    page["gangs"].push_back(GangJson(*gang, holders));
  }
  return page.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace asterism::controller
