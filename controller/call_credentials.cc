#include "controller/call_credentials.h"

#include <string>
#include <string_view>

#include "absl/strings/match.h"
#include "base/strings.h"
#include "grpc/grpc_security_constants.h"
#include "grpcpp/server_context.h"

namespace asterism::controller {
namespace {

constexpr std::string_view kBearer = "Bearer ";

std::string_view ToView(grpc::string_ref text) {
  return {text.data(), text.size()};
}

}  // namespace

Credentials CredentialsOf(const grpc::CallbackServerContext& context) {
  Credentials credentials;
  const auto connection = context.auth_context();
  if (connection != nullptr && connection->IsPeerAuthenticated()) {
    const auto names = connection->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME);
    if (names.size() == 1) {
      credentials.certificate_name = std::string(ToView(names.front()));
    }
  }
  const auto& metadata = context.client_metadata();
  // One that stands twice is none: nobody could say which counts.
  if (metadata.count("authorization") == 1) {
    const std::string_view value = ToView(metadata.find("authorization")->second);
    if (absl::StartsWithIgnoreCase(base::ToAbsl(value), base::ToAbsl(kBearer))) {
      credentials.bearer_token = std::string(value.substr(kBearer.size()));
    }
  }
  return credentials;
}

}  // namespace asterism::controller
