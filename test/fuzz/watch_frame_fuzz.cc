// Feeds any bytes to the watch framer, whole and cut in two: the events must be the same.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "kube/watch_frame.h"

namespace {

using namespace asterism::kube;

bool Feed(WatchFramer& framer, std::string_view bytes, std::vector<std::string>& events) {
  return framer
      .Append(
          bytes,
          [&](WatchEventType type, const RawObject& object) {
            events.push_back(std::to_string(static_cast<int>(type)) + std::string(object.bytes));
          })
      .ok();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) {
    return 0;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Encoding encoding = data[0] % 2 == 0 ? Encoding::kJson : Encoding::kProtobuf;
  const size_t cut = data[1] % (bytes.size() + 1);
  std::vector<std::string> whole_events;
  WatchFramer whole(encoding);
  const bool whole_ok = Feed(whole, bytes, whole_events);
  std::vector<std::string> cut_events;
  WatchFramer in_two(encoding);
  const bool cut_ok =
      Feed(in_two, bytes.substr(0, cut), cut_events) && Feed(in_two, bytes.substr(cut), cut_events);
  CHECK_THAT(whole_ok == cut_ok, "the cut decides whether the stream is valid");
  CHECK_THAT(whole_events == cut_events, "the cut changes the events");
  return 0;
}
