#include "agent/probe/lldp_probe.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace asterism::agent {
namespace {

using Json = nlohmann::json;

constexpr size_t kTextMax = 256;

// json0 wraps each object in a list of one.
const Json* Unwrapped(const Json* value) {
  while (value != nullptr && value->is_array()) {
    value = value->empty() ? nullptr : &value->front();
  }
  return value;
}

const Json* Member(const Json* object, const char* key) {
  object = Unwrapped(object);
  if (object == nullptr || !object->is_object()) {
    return nullptr;
  }
  const auto found = object->find(key);
  return found == object->end() ? nullptr : &*found;
}

// A text, or an object with it in "value".
std::string LldpText(const Json* value) {
  value = Unwrapped(value);
  if (value != nullptr && value->is_object()) {
    value = Unwrapped(Member(value, "value"));
  }
  if (value == nullptr || !value->is_string()) {
    return "";
  }
  std::string text = value->get<std::string>().substr(0, kTextMax);
  std::replace_if(
      text.begin(), text.end(),
      [](char letter) { return static_cast<unsigned char>(letter) < 0x20; }, ' ');
  return text;
}

void TakeInterface(std::string name, const Json& facts, v1::MeasuredNeighbors& neighbors) {
  if (name.empty() || static_cast<size_t>(neighbors.neighbors_size()) == kNeighborsMax) {
    return;
  }
  const Json* chassis = Unwrapped(Member(&facts, "chassis"));
  // Plain json keys the chassis by its name.
  std::string system_name = LldpText(Member(chassis, "name"));
  if (chassis != nullptr && chassis->is_object() && chassis->size() == 1 &&
      Member(chassis, "id") == nullptr) {
    system_name = chassis->begin().key().substr(0, kTextMax);
    chassis = &chassis->begin().value();
  }
  v1::MeasuredNeighbor neighbor;
  neighbor.set_net_device(std::move(name));
  neighbor.set_chassis_id(LldpText(Member(chassis, "id")));
  neighbor.set_system_name(system_name);
  neighbor.set_port_id(LldpText(Member(Member(&facts, "port"), "id")));
  if (neighbor.chassis_id().empty() && neighbor.port_id().empty()) {
    return;
  }
  *neighbors.add_neighbors() = std::move(neighbor);
}

// nlohmann's parser recurses; a text that nests deeper than any of lldpd is refused before.
bool TooDeep(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (quoted) {
      i += letter == '\\' ? 1 : 0;
      quoted = letter != '"';
    } else if (letter == '"') {
      quoted = true;
    } else if (letter == '[' || letter == '{') {
      if (++depth > 64) {
        return true;
      }
    } else if (letter == ']' || letter == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<v1::MeasuredNeighbors> ParseLldp(std::string_view text) {
  if (text.size() > kLldpBytesMax || TooDeep(text)) {
    return absl::InvalidArgumentError("larger or deeper than any output of lldpctl");
  }
  const Json file = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!file.is_object() || !file.contains("lldp")) {
    return absl::InvalidArgumentError(
        "no JSON with \"lldp\": is it the output of lldpctl -f json0?");
  }
  v1::MeasuredNeighbors neighbors;
  // json0: a list of one with a list of interfaces, each with its name. json: objects by name, or a
  // list of such objects.
  const Json* interfaces = Member(&file["lldp"], "interface");
  if (interfaces == nullptr) {
    return neighbors;  // nobody was heard
  }
  const auto take = [&neighbors](const Json& entry) {
    if (!entry.is_object()) {
      return;
    }
    if (entry.contains("name")) {
      TakeInterface(LldpText(&entry["name"]), entry, neighbors);
      return;
    }
    for (const auto& [name, facts] : entry.items()) {
      TakeInterface(name.substr(0, kTextMax), facts, neighbors);
    }
  };
  if (interfaces->is_array()) {
    for (const Json& entry : *interfaces) {
      take(entry);
    }
  } else {
    take(*interfaces);
  }
  std::sort(neighbors.mutable_neighbors()->begin(), neighbors.mutable_neighbors()->end(),
            [](const v1::MeasuredNeighbor& left, const v1::MeasuredNeighbor& right) {
              return std::tuple(left.net_device(), left.chassis_id(), left.port_id()) <
                     std::tuple(right.net_device(), right.chassis_id(), right.port_id());
            });
  return neighbors;
}

LldpProbe::LldpProbe(TextSource source, absl::Duration period)
    : Probe("lldp", period), source_(std::move(source)) {}

ProbeResult LldpProbe::Run() {
  const absl::StatusOr<std::string> text = ReadTextSource(source_, kLldpBytesMax);
  if (!text.ok()) {
    return ProbeResult::Failed(std::string(text.status().message()));
  }
  const absl::StatusOr<v1::MeasuredNeighbors> neighbors = ParseLldp(*text);
  if (!neighbors.ok()) {
    return ProbeResult::Failed(
        fmt::format("{}: {}", source_.name(), std::string(neighbors.status().message())));
  }
  ProbeResult result;
  *result.parts.mutable_neighbors() = *neighbors;
  return result;
}

}  // namespace asterism::agent
