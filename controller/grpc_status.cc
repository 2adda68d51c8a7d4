#include "controller/grpc_status.h"

#include <string>
#include <string_view>

#include "base/strings.h"
#include "fmt/format.h"

namespace asterism::controller {
namespace {

std::string PrintableText(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    if (out.size() >= kGrpcMessageBytesMax) {
      return out + "...";
    }
    if (letter >= ' ' && letter <= '~') {
      out += letter;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(letter));
    }
  }
  return out;
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  // The codes are the same numbers.
  return status.ok() ? grpc::Status::OK
                     : grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                                    PrintableText(base::ToStd(status.message())));
}

}  // namespace asterism::controller
