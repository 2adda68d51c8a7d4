#include "topology/import/infiniband_ports.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "fmt/format.h"
#include "topology/import/text_lines.h"

namespace asterism::topology {
namespace {

struct ListedPort {
  DeviceKind kind = DeviceKind::kUnknown;
  uint64_t guid = 0;
  uint16_t port = 0;
};

// `CA|SW lid port 0xguid` at words[at]; a lid may be missing.
std::optional<ListedPort> TakePort(const std::vector<std::string_view>& words, size_t& at) {
  if (at >= words.size() || (words[at] != "CA" && words[at] != "SW" && words[at] != "RT")) {
    return std::nullopt;
  }
  ListedPort port;
  port.kind = words[at] == "SW"   ? DeviceKind::kSwitch
              : words[at] == "CA" ? DeviceKind::kAdapter
                                  : DeviceKind::kRouter;
  size_t next = at + 1;
  std::optional<uint64_t> number;
  while (next < words.size() && !words[next].starts_with("0x")) {
    number = DecimalOf(words[next]);
    if (!number.has_value() || next > at + 2) {
      return std::nullopt;
    }
    ++next;
  }
  if (next >= words.size() || !number.has_value() || *number >= kPortMax) {
    return std::nullopt;
  }
  const std::optional<uint64_t> guid = HexOf(words[next]);
  if (!guid.has_value()) {
    return std::nullopt;
  }
  port.guid = *guid;
  port.port = static_cast<uint16_t>(*number);
  at = next + 1;
  return port;
}

class PortListReader {
 public:
  PortListReader(std::string_view name, std::string_view text) : lines_(text) {
    out_.source = std::string(name);
    out_.format = "ibnetdiscover_p";
  }

  absl::StatusOr<Imported> Read() {
    size_t count = 0;
    size_t lone = 0;
    while (lines_.Next()) {
      const std::string_view line = lines_.line();
      const std::vector<std::string_view> words = WordsOf(line);
      size_t at = 0;
      const std::optional<ListedPort> near = TakePort(words, at);
      if (!near.has_value()) {
        if (!words.empty() && (words[0] == "CA" || words[0] == "SW")) {
          out_.Damage(lines_.number(), fmt::format("not a port line: \"{}\"", Excerpt(line)));
        }
        continue;
      }
      ++count;
      lone += ReadLink(line, words, at, *near) ? 0 : 1;
    }
    if (count == 0) {
      return absl::InvalidArgumentError(
          fmt::format("{}: line 1: no port line in {} lines: is it the output of ibnetdiscover -p?",
                      out_.source, lines_.number()));
    }
    out_.summary["lines"] = count;
    out_.summary["lone_ports"] = lone;
    out_.fabric = std::move(fabric_);
    return std::move(out_);
  }

 private:
  // Whether the port has a peer.
  bool ReadLink(std::string_view line, const std::vector<std::string_view>& words, size_t at,
                const ListedPort& near) {
    const uint32_t device = fabric_.Device(near.guid, near.kind);
    if (fabric_.devices[device].line == 0) {
      fabric_.devices[device].line = lines_.number();
    }
    HalfLink half{.device = device, .port = near.port};
    if (at + 1 < words.size()) {
      const std::string_view width = words[at];
      half.width = static_cast<uint8_t>(std::min<uint64_t>(
          DecimalOf(width.substr(0, width.size() - (width.ends_with('x') ? 1 : 0))).value_or(0),
          64));
      half.speed = LaneSpeedOf(words[at + 1]);
      at += 2;
    }
    const bool dash = at < words.size() && words[at] == "-";
    size_t next = at + 1;
    const std::optional<ListedPort> far = dash ? TakePort(words, next) : std::nullopt;
    const size_t quote = line.find('\'');
    if (!far.has_value()) {
      const size_t last = line.rfind('\'');
      if (quote != std::string_view::npos && last > quote) {
        Name(device, line.substr(quote + 1, last - quote - 1));
      }
      return false;
    }
    half.peer = fabric_.Device(far->guid, far->kind);
    half.peer_port = far->port;
    const size_t middle = line.find("' - '", quote == std::string_view::npos ? 0 : quote);
    const size_t last = line.rfind('\'');
    if (middle != std::string_view::npos && last > middle + 4) {
      Name(device, line.substr(quote + 1, middle - quote - 1));
      Name(half.peer, line.substr(middle + 5, last - middle - 5));
    }
    fabric_.half_links.push_back(half);
    return true;
  }

  void Name(uint32_t device, std::string_view name) {
    if (fabric_.devices[device].name.empty()) {
      fabric_.devices[device].name = std::string(name);
    }
  }

  TextLines lines_;
  Imported out_;
  Fabric fabric_;
};

// "12[  ]": the number before the bracket.
std::optional<uint64_t> NumberBefore(std::string_view text, size_t bracket) {
  size_t begin = bracket;
  while (begin > 0 && IsDigitChar(text[begin - 1])) {
    --begin;
  }
  return DecimalOf(text.substr(begin, bracket - begin));
}

LaneSpeed SpeedOfGbps(double gbps) {
  // Rates that iblinkinfo prints a lane.
  constexpr std::pair<double, LaneSpeed> kRates[] = {
      {2.5, LaneSpeed::kSdr},     {5.0, LaneSpeed::kDdr},      {10.0, LaneSpeed::kQdr},
      {14.0625, LaneSpeed::kFdr}, {25.78125, LaneSpeed::kEdr}, {53.125, LaneSpeed::kHdr},
      {106.25, LaneSpeed::kNdr},  {212.5, LaneSpeed::kXdr}};
  for (const auto& [rate, speed] : kRates) {
    if (gbps > rate * 0.97 && gbps < rate * 1.03) {
      return speed;
    }
  }
  return LaneSpeed::kUnknown;
}

double DecimalFractionOf(std::string_view text) {
  const size_t dot = text.find('.');
  double value = static_cast<double>(DecimalOf(text.substr(0, dot)).value_or(0));
  if (dot != std::string_view::npos) {
    double place = 0.1;
    for (const char digit : text.substr(dot + 1, 9)) {
      if (!IsDigitChar(digit)) {
        break;
      }
      value += (digit - '0') * place;
      place /= 10;
    }
  }
  return value;
}

class LinkInfoReader {
 public:
  LinkInfoReader(std::string_view name, std::string_view text) : lines_(text) {
    out_.source = std::string(name);
    out_.format = "iblinkinfo";
  }

  absl::StatusOr<Imported> Read() {
    while (lines_.Next()) {
      const std::string_view line = lines_.line();
      const size_t arrow = line.find("==(");
      if (arrow != std::string_view::npos) {
        ReadLink(line, arrow);
      } else if (line.starts_with("Switch") || line.starts_with("CA:")) {
        ReadHeader(line);
      }
    }
    if (links_ == 0) {
      return absl::InvalidArgumentError(
          fmt::format("{}: line 1: no link line in {} lines: is it the output of iblinkinfo?",
                      out_.source, lines_.number()));
    }
    JoinByLid();
    out_.fabric = std::move(fabric_);
    return std::move(out_);
  }

 private:
  struct Pending {
    size_t half;
    uint64_t lid;
    std::string name;
    uint32_t line;
  };

  void ReadHeader(std::string_view line) {
    open_kind_ = line.starts_with("CA:") ? DeviceKind::kAdapter : DeviceKind::kSwitch;
    open_ = kNoDevice;
    const std::vector<std::string_view> words = WordsOf(line);
    open_name_ = "";
    for (size_t i = 1; i < words.size(); ++i) {
      if (words[i].starts_with("0x") && open_ == kNoDevice) {
        if (const auto guid = HexOf(words[i]); guid.has_value()) {
          open_ = fabric_.Device(*guid, open_kind_);
        }
        continue;
      }
      open_name_ += (open_name_.empty() ? "" : " ") + std::string(words[i]);
    }
    if (open_name_.ends_with(':')) {
      open_name_.pop_back();
    }
    if (open_ != kNoDevice) {
      fabric_.devices[open_].name = open_name_;
      fabric_.devices[open_].line = lines_.number();
    }
  }

  void ReadLink(std::string_view line, size_t arrow) {
    const std::string_view near = line.substr(0, arrow);
    const size_t end = line.find(")==>", arrow);
    if (end == std::string_view::npos) {
      out_.Damage(lines_.number(), fmt::format("a link line is cut: \"{}\"", Excerpt(line)));
      return;
    }
    ++links_;
    const std::string_view state = line.substr(arrow + 3, end - arrow - 3);
    const std::string_view far = line.substr(end + 4);
    const uint32_t device = NearDevice(near);
    const size_t bracket = near.rfind('[');
    const std::optional<uint64_t> port =
        bracket == std::string_view::npos ? std::nullopt : NumberBefore(near, bracket);
    if (device == kNoDevice || !port.has_value() || *port >= kPortMax) {
      out_.Damage(lines_.number(),
                  fmt::format("a link without its own port: \"{}\"", Excerpt(line)));
      return;
    }
    if (state.find("Active") == std::string_view::npos &&
        state.find("LinkUp") == std::string_view::npos) {
      return;  // down: no peer
    }
    HalfLink half{.device = device, .port = static_cast<uint16_t>(*port)};
    const std::vector<std::string_view> words = WordsOf(state);
    if (words.size() >= 2 && words[0].ends_with('X')) {
      half.width = static_cast<uint8_t>(
          std::min<uint64_t>(DecimalOf(words[0].substr(0, words[0].size() - 1)).value_or(0), 64));
      half.speed = SpeedOfGbps(DecimalFractionOf(words[1]));
    }
    TakeFar(far, half);
  }

  uint32_t NearDevice(std::string_view near) {
    const std::vector<std::string_view> words = WordsOf(near);
    uint32_t device = open_;
    size_t at = 0;
    if (!words.empty() && words[0].starts_with("0x")) {
      if (const auto guid = HexOf(words[0]); guid.has_value()) {
        device = fabric_.Device(*guid, open_kind_);
        if (fabric_.devices[device].name.empty()) {
          const size_t quote = near.find('"');
          const size_t last = near.rfind('"');
          fabric_.devices[device].name =
              quote != std::string_view::npos && last > quote
                  ? std::string(Trimmed(near.substr(quote + 1, last - quote - 1)))
                  : open_name_;
          fabric_.devices[device].line = lines_.number();
        }
      }
      const size_t last = near.rfind('"');
      at = last == std::string_view::npos ? 1 : 0;
      const auto rest = last == std::string_view::npos ? words : WordsOf(near.substr(last + 1));
      if (at < rest.size()) {
        Remember(rest[at], device);
      }
      return device;
    }
    if (!words.empty() && device != kNoDevice) {
      Remember(words[0], device);
    }
    return device;
  }

  void Remember(std::string_view word, uint32_t device) {
    if (const auto lid = DecimalOf(word); device != kNoDevice && lid.has_value() && *lid > 0) {
      by_lid_.try_emplace(*lid, device);
    }
  }

  void TakeFar(std::string_view far, HalfLink half) {
    const size_t quote = far.find('"');
    const size_t last = far.rfind('"');
    const std::string name = quote != std::string_view::npos && last > quote
                                 ? std::string(Trimmed(far.substr(quote + 1, last - quote - 1)))
                                 : "";
    const std::string_view numbers = far.substr(0, quote);
    const size_t bracket = numbers.rfind('[');
    const std::vector<std::string_view> words = WordsOf(numbers);
    const std::optional<uint64_t> port =
        bracket == std::string_view::npos ? std::nullopt : NumberBefore(numbers, bracket);
    if (words.empty() || !port.has_value() || *port >= kPortMax) {
      out_.Damage(lines_.number(), "a link that is up has no peer");
      return;
    }
    half.peer_port = static_cast<uint16_t>(*port);
    if (words[0].starts_with("0x")) {
      const auto guid = HexOf(words[0]);
      if (!guid.has_value()) {
        out_.Damage(lines_.number(), "the GUID of the peer cannot be read");
        return;
      }
      half.peer = fabric_.Device(*guid, DeviceKind::kUnknown);
      if (fabric_.devices[half.peer].name.empty()) {
        fabric_.devices[half.peer].name = name;
      }
    } else {
      pending_.push_back(
          {fabric_.half_links.size(), DecimalOf(words[0]).value_or(0), name, lines_.number()});
    }
    fabric_.half_links.push_back(half);
  }

  // The short output names peers by lid. One that has no line of its own is an adapter with its
  // name as key.
  void JoinByLid() {
    for (const Pending& each : pending_) {
      HalfLink& half = fabric_.half_links[each.half];
      const auto it = by_lid_.find(each.lid);
      if (it != by_lid_.end()) {
        half.peer = it->second;
        continue;
      }
      const std::string key = each.name.empty() ? fmt::format("lid {}", each.lid) : each.name;
      half.peer = fabric_.DeviceNamed(key, DeviceKind::kAdapter);
    }
    for (FabricDevice& device : fabric_.devices) {
      if (device.kind == DeviceKind::kUnknown) {
        device.kind = DeviceKind::kAdapter;
      }
    }
  }

  TextLines lines_;
  Imported out_;
  Fabric fabric_;
  DeviceKind open_kind_ = DeviceKind::kSwitch;
  uint32_t open_ = kNoDevice;
  std::string open_name_;
  size_t links_ = 0;
  absl::flat_hash_map<uint64_t, uint32_t> by_lid_;
  std::vector<Pending> pending_;
};

}  // namespace

bool LooksLikeInfinibandPorts(std::string_view head) {
  TextLines lines(head);
  while (lines.Next()) {
    const std::vector<std::string_view> words = WordsOf(lines.line());
    size_t at = 0;
    if (TakePort(words, at).has_value()) {
      return true;
    }
  }
  return false;
}

absl::StatusOr<Imported> ImportInfinibandPorts(std::string_view name, std::string_view text) {
  return PortListReader(name, text).Read();
}

bool LooksLikeLinkInfo(std::string_view head) {
  return head.find("==(") != std::string_view::npos && head.find(")==>") != std::string_view::npos;
}

absl::StatusOr<Imported> ImportLinkInfo(std::string_view name, std::string_view text) {
  return LinkInfoReader(name, text).Read();
}

}  // namespace asterism::topology
