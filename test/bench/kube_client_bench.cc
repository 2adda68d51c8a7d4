// What the Kubernetes client costs (kubernetes.md section 22, items 2 and 3).
//
//   kube_client_bench            a table
//   kube_client_bench --json     one JSON object a line
//
// The HTTP part needs Go, which builds the server that answers after 5 ms (h2_delay_server.go
// beside this file); without Go it is left out with a note on stderr. Its budget of 70 ms was taken
// on a quiet machine; the CPU time of a request is this process's, the server's is not in it.

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "base/clock.h"
#include "base/executor.h"
#include "fmt/format.h"
#include "k8s/core.pb.h"
#include "k8s/runtime.pb.h"
#include "kube/curl_http_client.h"
#include "kube/decoder.h"
#include "kube/http_api_client.h"
#include "kube/watch_frame.h"
#include "test/source_tree.h"

namespace asterism::kube {
namespace {

namespace core = ::k8s::io::api::core::v1;
namespace meta = ::k8s::io::apimachinery::pkg::apis::meta::v1;
namespace runtime = ::k8s::io::apimachinery::pkg::runtime;

struct Figure {
  std::string name;
  std::string unit;
  double value = 0;
  double budget = 0;  // 0: none
  bool at_least = false;

  bool ok() const { return budget == 0 || (at_least ? value >= budget : value <= budget); }
};

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Bytes of a field that our schema does not have, as an upstream object would carry.
std::string ForeignField(int number, size_t size) {
  meta::ObjectMeta carrier;
  carrier.set_name(std::string(size, 'x'));
  std::string bytes = carrier.SerializeAsString();  // field 1
  std::string tag;
  for (auto value = static_cast<unsigned>(number << 3 | 2); value != 0; value >>= 7) {
    tag += static_cast<char>((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
  }
  return tag + bytes.substr(1);
}

// A pod with everything filled in, of about `size` bytes.
core::Pod FullPod(size_t size, int number) {
  core::Pod pod;
  meta::ObjectMeta& metadata = *pod.mutable_metadata();
  metadata.set_name(fmt::format("llama-abcde-r{}-e1", number * 8));
  metadata.set_namespace_("research");
  metadata.set_uid(fmt::format("00000000-0000-4000-8000-{:012x}", number));
  metadata.set_resourceversion(fmt::to_string(100000 + number));
  metadata.mutable_creationtimestamp()->set_seconds(1790000000);
  for (int i = 0; i < 8; ++i) {
    (*metadata.mutable_labels())[fmt::format("asterism.dev/label-{}", i)] = "value";
    (*metadata.mutable_annotations())[fmt::format("asterism.dev/note-{}", i)] =
        std::string(40, 'a');
  }
  meta::OwnerReference& owner = *metadata.add_ownerreferences();
  owner.set_kind("TrainingJob");
  owner.set_name("llama");
  owner.set_uid("00000000-0000-4000-8000-000000000001");
  owner.set_controller(true);
  core::PodSpec& spec = *pod.mutable_spec();
  spec.set_schedulername("asterism");
  spec.set_nodename(fmt::format("gpu-{:04}", number));
  core::NodeSelectorRequirement& pin =
      *spec.mutable_affinity()
           ->mutable_nodeaffinity()
           ->mutable_requiredduringschedulingignoredduringexecution()
           ->add_nodeselectorterms()
           ->add_matchfields();
  pin.set_key("metadata.name");
  pin.set_operator_("In");
  pin.add_values(spec.nodename());
  for (int i = 0; i < 3; ++i) {
    core::Container& container = *spec.add_containers();
    container.set_name(fmt::format("container-{}", i));
    auto& requests = *container.mutable_resources()->mutable_requests();
    requests["cpu"].set_string("1500m");
    requests["memory"].set_string("64Gi");
    requests["nvidia.com/gpu"].set_string("8");
    core::ContainerStatus& status = *pod.mutable_status()->add_containerstatuses();
    status.set_name(container.name());
    status.mutable_state();
  }
  for (const char* type : {"PodScheduled", "Initialized", "ContainersReady", "Ready"}) {
    core::PodCondition& condition = *pod.mutable_status()->add_conditions();
    condition.set_type(type);
    condition.set_status("True");
    condition.mutable_lasttransitiontime()->set_seconds(1790000000);
  }
  pod.mutable_status()->set_phase("Running");
  std::string bytes = pod.SerializeAsString();
  // The rest is what we do not read: env, volumes, probes, managedFields.
  const size_t missing = size > bytes.size() ? size - bytes.size() : 0;
  core::Container& first = *spec.mutable_containers(0);
  first.MergeFromString(ForeignField(7, missing / 3));
  spec.MergeFromString(ForeignField(1, missing / 3));
  metadata.MergeFromString(ForeignField(17, missing / 3));
  return pod;
}

std::string Frame(const core::Pod& pod) {
  runtime::Unknown unknown;
  unknown.mutable_typemeta()->set_apiversion("v1");
  unknown.mutable_typemeta()->set_kind("Pod");
  unknown.set_raw(pod.SerializeAsString());
  meta::WatchEvent event;
  event.set_type("ADDED");
  event.mutable_object()->set_raw(std::string("k8s\0", 4) + unknown.SerializeAsString());
  const std::string bytes = event.SerializeAsString();
  std::string frame;
  for (const int shift : {24, 16, 8, 0}) {
    frame += static_cast<char>((bytes.size() >> shift) & 0xff);
  }
  return frame + bytes;
}

void MeasureDecoding(std::vector<Figure>& figures) {
  const std::string pod = FullPod(13'000, 1).SerializeAsString();
  constexpr int kPods = 20'000;
  std::vector<double> micros;
  for (int round = 0; round < 5; ++round) {
    const double begin = CpuSeconds();
    for (int i = 0; i < kPods; ++i) {
      if (!DecodePod({Encoding::kProtobuf, pod}).ok()) {
        std::abort();
      }
    }
    micros.push_back((CpuSeconds() - begin) * 1e6 / kPods);
  }
  figures.push_back({fmt::format("decode_pod_{}_bytes", pod.size()), "us", Median(micros), 10});

  std::string stream;
  constexpr int kObjects = 11'280;  // 1,280 nodes + 10,000 pods
  for (int i = 0; i < kObjects; ++i) {
    stream += Frame(FullPod(4'000, i));
  }
  const double begin = CpuSeconds();
  WatchFramer framer(Encoding::kProtobuf);
  std::vector<std::shared_ptr<const Pod>> pods;
  constexpr size_t kChunk = 16 << 10;
  for (size_t at = 0; at < stream.size(); at += kChunk) {
    const absl::Status status = framer.Append(
        std::string_view(stream).substr(at, kChunk), [&](WatchEventType, const RawObject& object) {
          pods.push_back(std::make_shared<const Pod>(DecodePod(object).value()));
        });
    if (!status.ok()) {
      std::abort();
    }
  }
  figures.push_back(
      {fmt::format("watch_list_decode_{}_objects", pods.size()), "s", CpuSeconds() - begin, 0.5});
}

// The Go server, alive as long as this object.
class DelayServer {
 public:
  // False without Go.
  bool Start() {
    const std::string source =
        asterism::test_paths::SourceTree() + "/test/bench/h2_delay_server.go";
    program_ = fmt::format("/tmp/asterism-h2-delay-{}", getpid());
    const std::string build = fmt::format("go build -o {} {} 1>&2", program_, source);
    if (std::system("command -v go > /dev/null") != 0 || std::system(build.c_str()) != 0) {
      return false;
    }
    std::array<int, 2> input{};
    std::array<int, 2> output{};
    if (pipe2(input.data(), O_CLOEXEC) != 0 || pipe2(output.data(), O_CLOEXEC) != 0) {
      return false;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    std::string delay = "5ms";
    std::array<char*, 3> arguments = {program_.data(), delay.data(), nullptr};
    const int error =
        posix_spawn(&process_, program_.c_str(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(input[0]);
    close(output[1]);
    input_ = input[1];
    if (error != 0) {
      return false;
    }
    std::string text;
    std::array<char, 4096> buffer;
    while (text.find("-----END CERTIFICATE-----") == std::string::npos) {
      const ssize_t count = read(output[0], buffer.data(), buffer.size());
      if (count <= 0) {
        return false;
      }
      text.append(buffer.data(), static_cast<size_t>(count));
    }
    close(output[0]);
    server = "https://127.0.0.1:" + text.substr(0, text.find('\n'));
    ca_pem = text.substr(text.find('\n') + 1);
    return true;
  }
  ~DelayServer() {
    if (process_ > 0) {
      close(input_);
      waitpid(process_, nullptr, 0);
    }
    unlink(program_.c_str());
  }

  std::string server;
  std::string ca_pem;

 private:
  std::string program_;
  pid_t process_ = -1;
  int input_ = -1;
};

void MeasurePosts(const DelayServer& server, std::vector<Figure>& figures) {
  base::SystemClock clock;
  CurlOptions options;
  options.server = server.server;
  options.ca_pem = server.ca_pem;
  CurlHttpClient http(options);
  constexpr int kPosts = 512;
  std::vector<double> millis;
  std::vector<double> micros;
  for (int round = 0; round < 16; ++round) {
    absl::BlockingCounter left(kPosts);
    const base::SteadyTime begin = clock.SteadyNow();
    const double cpu = CpuSeconds();
    for (int i = 0; i < kPosts; ++i) {
      HttpRequest request;
      request.method = "POST";
      request.target = "/api/v1/namespaces/research/pods";
      request.content_type = "application/json";
      request.body = std::string(300, 'x');
      http.Send(std::move(request), [&](const HttpResult& result) {
        if (result.code != 200) {
          std::fprintf(stderr, "%s\n", std::string(result.error.message()).c_str());
        }
        left.DecrementCount();
      });
    }
    left.Wait();
    if (round > 0) {  // the first one opens the connections
      millis.push_back(absl::ToDoubleMilliseconds(clock.SteadyNow() - begin));
      micros.push_back((CpuSeconds() - cpu) * 1e6 / kPosts);
    }
  }
  figures.push_back({"posts_512_wall", "ms", Median(millis), 70});
  figures.push_back({"post_client_cpu", "us", Median(micros), 80});
}

void MeasureCreates(const DelayServer& server, std::vector<Figure>& figures) {
  base::SystemClock clock;
  ApiConfig config;
  config.server = server.server;
  config.ca_pem = server.ca_pem;
  config.credentials = FixedCredentials({});
  CurlHttpClient http(CurlOptions::From(config));
  base::ThreadExecutor executor("bench");
  HttpApiClient client(executor, base::Rng(1), http, config, {});
  constexpr int kPods1280 = 1280;
  const std::string body(3000, 'x');
  std::vector<double> rates;
  for (int round = 0; round < 6; ++round) {
    absl::BlockingCounter left(kPods1280);
    const base::SteadyTime begin = clock.SteadyNow();
    for (int i = 0; i < kPods1280; ++i) {
      client.Create(kPods, "research", body, {}, Lane::kWrite,
                    [&](const absl::StatusOr<Reply>&) { left.DecrementCount(); });
    }
    left.Wait();
    if (round > 0) {
      rates.push_back(kPods1280 / absl::ToDoubleSeconds(clock.SteadyNow() - begin));
    }
  }
  figures.push_back({"creates_1280_rate", "1/s", Median(rates), 1000, /*at_least=*/true});
  executor.Stop();
}

int Main(bool json) {
  std::vector<Figure> figures;
  MeasureDecoding(figures);
  DelayServer server;
  if (server.Start()) {
    MeasurePosts(server, figures);
    MeasureCreates(server, figures);
  } else {
    std::fprintf(stderr, "SKIPPED: no Go, so no server to measure HTTP against\n");
  }
  bool good = true;
  for (const Figure& figure : figures) {
    good = good && figure.ok();
    if (json) {
      fmt::print(R"({{"name":"{}","unit":"{}","value":{:.3f},"budget":{},"ok":{}}})"
                 "\n",
                 figure.name, figure.unit, figure.value, figure.budget, figure.ok());
    } else {
      fmt::print("{:<32} {:>12.3f} {:<4} budget {}{:<8} {}\n", figure.name, figure.value,
                 figure.unit, figure.at_least ? ">=" : "<=", figure.budget,
                 figure.ok() ? "ok" : "MISSED");
    }
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace asterism::kube

int main(int argc, char** argv) {
  return asterism::kube::Main(argc > 1 && std::string_view(argv[1]) == "--json");
}
