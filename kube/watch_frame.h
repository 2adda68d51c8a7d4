// File: kube/watch_frame.h
//
// Cuts the bytes of a watch stream into events, however the network has cut them before. Protobuf:
// a 4-byte big-endian length, then a WatchEvent without magic whose object is a document with it.
// JSON: one object a line.
//
//   WatchFramer framer(Encoding::kProtobuf);
//   RETURN_IF_ERROR(framer.Append(bytes, [&](WatchEventType type, const RawObject& object) {...}));
//
// Thread-safety: none. Cost: no copy of an event that arrives whole; an event has at most 32 MiB.
#pragma once

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kube/watch_source.h"

namespace asterism::kube {

class WatchFramer {
 public:
  static constexpr size_t kMaxFrame = size_t{32} << 20;
  using Visit = absl::FunctionRef<void(WatchEventType type, const RawObject& object)>;

  explicit WatchFramer(Encoding encoding) : encoding_(encoding) {}

  // Calls visit for each event that is complete now. After an error the stream is useless.
  absl::Status Append(std::string_view bytes, Visit visit);
  // Bytes of an event that has not ended.
  size_t pending() const { return pending_.size(); }

 private:
  // Takes one frame off `bytes`; false when it is not complete.
  absl::StatusOr<bool> TakeFrame(std::string_view& bytes, std::string_view& frame) const;
  absl::Status Consume(std::string_view& bytes, Visit visit) const;

  const Encoding encoding_;
  std::string pending_;
};

}  // namespace asterism::kube
