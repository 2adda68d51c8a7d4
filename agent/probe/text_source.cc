#include "agent/probe/text_source.h"

#include "agent/probe/child_output.h"
#include "base/small_file.h"

namespace asterism::agent {
namespace {

constexpr absl::Duration kChildDeadline = absl::Seconds(2);

}  // namespace

absl::StatusOr<std::string> ReadTextSource(const TextSource& source, size_t bytes_max) {
  return source.file.empty() ? ChildOutput(source.command, kChildDeadline, bytes_max)
                             : base::ReadFile(source.file, bytes_max);
}

}  // namespace asterism::agent
