// Calls asterism.v1.Placement with JSON, for the scenarios: what grpcurl would do. A method of
// asterism.v1.Planner has the service in front of it: Planner.Calibrate.
//
//   ASTERISM_TOKEN=... placement_client 127.0.0.1:9443 Place <request.json
//   ASTERISM_TOKEN=... placement_client 127.0.0.1:9443 WatchQueue 3     # ends after three messages
//
// With ASTERISM_CA, a file, it speaks TLS; with ASTERISM_CERTIFICATE and ASTERISM_KEY it shows a
// certificate, too.
//
// Prints a JSON object a line. An error is "CODE: message" on stderr and exit code 1.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "asterism/v1/placement.grpc.pb.h"
#include "asterism/v1/planner.pb.h"
#include "google/protobuf/util/json_util.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace {

using google::protobuf::Message;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before any thread
  return value == nullptr ? "" : value;
}

std::string FileOf(const char* variable) {
  std::ifstream file(Environment(variable));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  if (Environment("ASTERISM_CA").empty()) {
    return grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  }
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride("asterism-extender");
  return grpc::CreateCustomChannel(
      address,
      grpc::SslCredentials({.pem_root_certs = FileOf("ASTERISM_CA"),
                            .pem_private_key = FileOf("ASTERISM_KEY"),
                            .pem_cert_chain = FileOf("ASTERISM_CERTIFICATE")}),
      arguments);
}

void Print(const Message& message) {
  std::string json;
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  if (google::protobuf::util::MessageToJsonString(message, &json, options).ok()) {
    std::cout << json << std::endl;
  }
}

std::unique_ptr<Message> NewMessage(const google::protobuf::Descriptor* type) {
  return std::unique_ptr<Message>(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
}

// Null: there is none. Both services are linked in.
const google::protobuf::MethodDescriptor* FindMethod(const std::string& name) {
  const std::string service = name.rfind("Planner.", 0) == 0
                                  ? "asterism.v1."
                                  : std::string(asterism::v1::Placement::service_full_name()) + ".";
  static_cast<void>(asterism::v1::PlanRequest::descriptor());
  return google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(service + name);
}

grpc::Status CallUnary(const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext& context,
                       const google::protobuf::MethodDescriptor& method, const Message& request) {
  std::string bytes = request.SerializeAsString();
  grpc::Slice slice(bytes);
  const grpc::ByteBuffer sent(&slice, 1);
  grpc::ByteBuffer received;
  absl::Notification done;
  grpc::Status status;
  grpc::GenericStub(channel).UnaryCall(
      &context, "/" + method.service()->full_name() + "/" + method.name(), grpc::StubOptions(),
      &sent, &received, [&](grpc::Status result) {
        status = std::move(result);
        done.Notify();
      });
  done.WaitForNotification();
  if (status.ok()) {
    const std::unique_ptr<Message> response = NewMessage(method.output_type());
    grpc::Slice answer;
    if (!received.DumpToSingleSlice(&answer).ok() ||
        !response->ParseFromArray(answer.begin(), static_cast<int>(answer.size()))) {
      return {grpc::StatusCode::INTERNAL, "the answer cannot be read"};
    }
    Print(*response);
  }
  return status;
}

grpc::Status Watch(const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext& context,
                   const Message& request, int messages) {
  const auto stub = asterism::v1::Placement::NewStub(channel);
  const auto reader =
      stub->WatchQueue(&context, static_cast<const asterism::v1::WatchQueueRequest&>(request));
  asterism::v1::WatchQueueResponse message;
  for (int i = 0; i < messages; ++i) {
    if (!reader->Read(&message)) {
      return reader->Finish();
    }
    Print(message);
  }
  context.TryCancel();
  return grpc::Status::OK;
}

}  // namespace

int main(int argc, char** argv) {
  const google::protobuf::MethodDescriptor* method = argc < 3 ? nullptr : FindMethod(argv[2]);
  if (method == nullptr) {
    std::cerr << "usage: placement_client ADDRESS METHOD [MESSAGES] <request.json\n";
    return 2;
  }
  const std::string json{std::istreambuf_iterator<char>(std::cin),
                         std::istreambuf_iterator<char>()};
  const std::unique_ptr<Message> request = NewMessage(method->input_type());
  if (const auto parsed =
          google::protobuf::util::JsonStringToMessage(json.empty() ? "{}" : json, request.get());
      !parsed.ok()) {
    std::cerr << "the request is not JSON of " << method->input_type()->full_name() << ": "
              << parsed.ToString() << "\n";
    return 2;
  }
  grpc::ClientContext context;
  if (const std::string token = Environment("ASTERISM_TOKEN"); !token.empty()) {
    context.AddMetadata("authorization", "Bearer " + token);
  }
  context.set_deadline(
      gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_seconds(20, GPR_TIMESPAN)));
  const auto channel = Connect(argv[1]);
  const grpc::Status status =
      method->server_streaming()
          ? Watch(channel, context, *request, argc > 3 ? std::atoi(argv[3]) : 1)
          : CallUnary(channel, context, *method, *request);
  if (!status.ok()) {
    std::cerr << absl::StatusCodeToString(static_cast<absl::StatusCode>(status.error_code()))
              << ": " << status.error_message() << "\n";
    return 1;
  }
  return 0;
}
