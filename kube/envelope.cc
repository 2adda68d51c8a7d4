#include "kube/envelope.h"

#include <optional>

#include "base/status_macros.h"

namespace asterism::kube {
namespace {

constexpr std::string_view kMagic("k8s\0", 4);

// A base-128 number of at most ten bytes, taken off `bytes`.
std::optional<uint64_t> TakeVarint(std::string_view& bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size() && i < 10; ++i) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if ((byte & 0x80) == 0) {
      bytes.remove_prefix(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

std::optional<std::string_view> TakeBytes(std::string_view& bytes, uint64_t size) {
  if (size > bytes.size()) {
    return std::nullopt;
  }
  const std::string_view taken = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return taken;
}

absl::Status BrokenMessage() {
  return absl::InvalidArgumentError("protobuf message is cut short or malformed");
}

}  // namespace

absl::Status WalkFields(std::string_view message,
                        absl::FunctionRef<void(uint32_t, std::string_view)> visit) {
  while (!message.empty()) {
    const std::optional<uint64_t> tag = TakeVarint(message);
    if (!tag.has_value() || *tag > 0xffffffffu || (*tag >> 3) == 0) {
      return BrokenMessage();
    }
    uint64_t skipped = 0;
    switch (*tag & 7) {
      case 0:
        if (!TakeVarint(message).has_value()) {
          return BrokenMessage();
        }
        continue;
      case 1:
        skipped = 8;
        break;
      case 2: {
        const std::optional<uint64_t> size = TakeVarint(message);
        if (!size.has_value()) {
          return BrokenMessage();
        }
        const std::optional<std::string_view> payload = TakeBytes(message, *size);
        if (!payload.has_value()) {
          return BrokenMessage();
        }
        visit(static_cast<uint32_t>(*tag >> 3), *payload);
        continue;
      }
      case 5:
        skipped = 4;
        break;
      default:  // groups do not occur in this schema
        return BrokenMessage();
    }
    if (!TakeBytes(message, skipped).has_value()) {
      return BrokenMessage();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Envelope> OpenEnvelope(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) {
    return absl::InvalidArgumentError("not a Kubernetes protobuf document: magic bytes missing");
  }
  Envelope envelope;
  std::string_view type_meta;
  std::string_view encoding;
  RETURN_IF_ERROR(
      WalkFields(bytes.substr(kMagic.size()), [&](uint32_t number, std::string_view payload) {
        if (number == 1) {
          type_meta = payload;
        } else if (number == 2) {
          envelope.raw = payload;
        } else if (number == 3) {
          encoding = payload;
        }
      }));
  if (!encoding.empty()) {
    return absl::InvalidArgumentError("Kubernetes protobuf document has a content encoding");
  }
  RETURN_IF_ERROR(WalkFields(type_meta, [&](uint32_t number, std::string_view payload) {
    if (number == 1) {
      envelope.api_version = payload;
    } else if (number == 2) {
      envelope.kind = payload;
    }
  }));
  return envelope;
}

}  // namespace asterism::kube
