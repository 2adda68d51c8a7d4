#include "kube/watch_frame.h"

#include <cstdint>
#include <optional>

#include "base/cut_text.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "kube/envelope.h"
#include "kube/json_split.h"

namespace asterism::kube {
namespace {

constexpr size_t kLengthBytes = 4;

std::optional<WatchEventType> EventTypeOf(std::string_view name) {
  if (name == "ADDED") {
    return WatchEventType::kAdded;
  }
  if (name == "MODIFIED") {
    return WatchEventType::kModified;
  }
  if (name == "DELETED") {
    return WatchEventType::kDeleted;
  }
  if (name == "BOOKMARK") {
    return WatchEventType::kBookmark;
  }
  if (name == "ERROR") {
    return WatchEventType::kError;
  }
  return std::nullopt;
}

absl::StatusOr<WatchEventType> ReadEventType(std::string_view name) {
  const std::optional<WatchEventType> type = EventTypeOf(name);
  if (!type.has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("watch event of unknown type \"{}\"", base::CutText(name, 32)));
  }
  return *type;
}

absl::Status VisitProtobuf(std::string_view frame, WatchFramer::Visit visit) {
  std::string_view name;
  std::string_view extension;
  RETURN_IF_ERROR(WalkFields(frame, [&](uint32_t number, std::string_view payload) {
    if (number == 1) {
      name = payload;
    } else if (number == 2) {
      extension = payload;
    }
  }));
  std::string_view document;
  RETURN_IF_ERROR(WalkFields(extension, [&](uint32_t number, std::string_view payload) {
    if (number == 1) {
      document = payload;
    }
  }));
  ASSIGN_OR_RETURN(const WatchEventType type, ReadEventType(name));
  ASSIGN_OR_RETURN(const Envelope envelope, OpenEnvelope(document));
  visit(type, RawObject{Encoding::kProtobuf, envelope.raw});
  return absl::OkStatus();
}

absl::Status VisitJson(std::string_view frame, WatchFramer::Visit visit) {
  std::string_view name;
  std::string_view object;
  RETURN_IF_ERROR(SplitJsonObject(frame, [&](std::string_view key, std::string_view value) {
    if (key == "type") {
      name = value;
    } else if (key == "object") {
      object = value;
    }
  }));
  if (name.size() < 2 || name.front() != '"' || object.empty()) {
    return absl::InvalidArgumentError("watch event has no type or no object");
  }
  ASSIGN_OR_RETURN(const WatchEventType type, ReadEventType(name.substr(1, name.size() - 2)));
  visit(type, RawObject{Encoding::kJson, object});
  return absl::OkStatus();
}

uint32_t BigEndian(std::string_view bytes) {
  uint32_t value = 0;
  for (const char c : bytes.substr(0, kLengthBytes)) {
    value = (value << 8) | static_cast<uint8_t>(c);
  }
  return value;
}

absl::Status TooLong() {
  return absl::InvalidArgumentError(
      fmt::format("watch event is longer than {} bytes", WatchFramer::kMaxFrame));
}

}  // namespace

absl::StatusOr<bool> WatchFramer::TakeFrame(std::string_view& bytes,
                                            std::string_view& frame) const {
  if (encoding_ == Encoding::kJson) {
    const size_t end = bytes.find('\n');
    if (end == std::string_view::npos) {
      return bytes.size() > kMaxFrame ? absl::StatusOr<bool>(TooLong()) : false;
    }
    frame = bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    return true;
  }
  if (bytes.size() < kLengthBytes) {
    return false;
  }
  const size_t size = BigEndian(bytes);
  if (size > kMaxFrame) {
    return TooLong();
  }
  if (bytes.size() - kLengthBytes < size) {
    return false;
  }
  frame = bytes.substr(kLengthBytes, size);
  bytes.remove_prefix(kLengthBytes + size);
  return true;
}

absl::Status WatchFramer::Consume(std::string_view& bytes, Visit visit) const {
  for (;;) {
    std::string_view frame;
    ASSIGN_OR_RETURN(const bool complete, TakeFrame(bytes, frame));
    if (!complete) {
      return absl::OkStatus();
    }
    if (encoding_ == Encoding::kProtobuf) {
      RETURN_IF_ERROR(VisitProtobuf(frame, visit));
    } else if (frame.find_first_not_of(" \t\r") != std::string_view::npos) {
      RETURN_IF_ERROR(VisitJson(frame, visit));
    }
  }
}

absl::Status WatchFramer::Append(std::string_view bytes, Visit visit) {
  if (pending_.empty()) {
    RETURN_IF_ERROR(Consume(bytes, visit));
    pending_.assign(bytes);
    return absl::OkStatus();
  }
  pending_.append(bytes);
  std::string_view rest = pending_;
  RETURN_IF_ERROR(Consume(rest, visit));
  pending_.erase(0, pending_.size() - rest.size());
  return absl::OkStatus();
}

}  // namespace asterism::kube
