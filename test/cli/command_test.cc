// Whole command lines against a server that answers as the API server and the controller do.

#include "cli/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/rng.h"
#include "cli/arguments.h"
#include "fmt/format.h"
#include "server/http_server.h"
#include "test/cli/pages.h"
#include "test/source_tree.h"

namespace asterism::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr char kJobs[] = "/apis/asterism.dev/v1alpha1/namespaces/research/trainingjobs";
constexpr char kAllJobs[] = "/apis/asterism.dev/v1alpha1/trainingjobs";
constexpr char kQueues[] = "/apis/asterism.dev/v1alpha1/queues";
constexpr char kProxy[] =
    "/api/v1/namespaces/asterism-system/services/https:asterism-extender:diagnosis/proxy/";

json ListOf(const std::vector<json>& items) {
  return {{"kind", "List"}, {"metadata", {{"resourceVersion", "5"}}}, {"items", items}};
}

json Refusal(int code, const std::string& reason, const std::string& message) {
  return {{"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Failure"},
          {"code", code},     {"reason", reason},   {"message", message}};
}

struct Ended {
  int code = 0;
  std::string out;
  std::string error;
};

class CommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              fmt::format("asterism-cli-{}", base::Rng(base::Rng::SystemSeed()).Name(8));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Answer(const std::string& path, const json& body, int code = 200) {
    routes_.Add("GET", path, [text = body.dump(), code](const auto&, auto& response) {
      response.code = code;
      response.body = text;
    });
  }

  void Serve() {
    auto server =
        server::HttpServer::Start(clock_, std::move(routes_), metrics_, {.address = "127.0.0.1"});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    WriteKubeconfig(server_->port());
  }

  void WriteKubeconfig(int port) {
    std::ofstream(folder_ / "config") << fmt::format(R"(apiVersion: v1
kind: Config
current-context: test
clusters: [{{name: test, cluster: {{server: "http://127.0.0.1:{}"}}}}]
users: [{{name: test, user: {{}}}}]
contexts: [{{name: test, context: {{cluster: test, user: test, namespace: research}}}}]
)",
                                                     port);
    kubeconfig_.list = (folder_ / "config").string();
  }

  Ended Run(const std::vector<std::string>& words) {
    std::ostringstream out;
    std::ostringstream error;
    Ended ended;
    ended.code = RunCommand(words, Surroundings{.clock = clock_,
                                                .out = out,
                                                .error = error,
                                                .paper = {},
                                                .kubeconfig = kubeconfig_,
                                                .server = ""});
    ended.out = out.str();
    ended.error = error.str();
    // One line, with the remedy.
    EXPECT_LE(std::count(ended.error.begin(), ended.error.end(), '\n'), 1) << ended.error;
    return ended;
  }

  std::string Url() const { return fmt::format("http://127.0.0.1:{}", server_->port()); }

  base::SystemClock clock_;
  base::MetricRegistry registry_;
  server::HttpServerMetrics metrics_{registry_};
  server::HttpRoutes routes_;
  std::unique_ptr<server::HttpServer> server_;
  std::filesystem::path folder_;
  kube::KubeconfigOptions kubeconfig_;
};

TEST_F(CommandTest, ExplainEndsWithTheOutcome) {
  Answer(std::string(kJobs) + "/runs", RunningJob("runs", 2));
  Answer(std::string(kJobs) + "/waits", WaitingJob("waits", 512, "NoCapacity", 1));
  Answer(std::string(kJobs) + "/never", WaitingJob("never", 512, "NeverFits", 0));
  Answer(std::string(kQueues) + "/research", TestQueue("research", 64, 2048));
  Serve();
  const Ended runs = Run({"explain", "runs"});
  EXPECT_EQ(runs.code, kExitDone) << runs.error;
  EXPECT_THAT(runs.out, AllOf(HasSubstr("research/runs: Running"), HasSubstr("limit 2048")));
  EXPECT_EQ(Run({"explain", "tj/waits"}).code, kExitNotNow);
  EXPECT_EQ(Run({"explain", "never"}).code, kExitNever);
  EXPECT_EQ(Run({"explain", "pod/never"}).code, kExitUsage);
  const Ended structured = Run({"explain", "waits", "-o", "json"});
  EXPECT_EQ(structured.code, kExitNotNow);
  EXPECT_EQ(json::parse(structured.out)["waiting"]["reason"], "NoCapacity");
  EXPECT_THAT(Run({"explain", "waits", "-o", "yaml"}).out, HasSubstr("reason: NoCapacity"));
}

TEST_F(CommandTest, DoctorEndsWithWhatItFound) {
  const std::string texts = asterism::test_paths::SourceTree() + "/test/golden/topology/";
  const Ended clean = Run({"doctor", texts + "fabric-clean.ibnetdiscover"});
  EXPECT_EQ(clean.code, kExitDone) << clean.error;
  EXPECT_THAT(clean.out, HasSubstr("nothing is wrong"));
  const Ended ill = Run({"doctor", texts + "fabric-crossed-short-missing.ibnetdiscover"});
  EXPECT_EQ(ill.code, kExitFindings);
  EXPECT_THAT(ill.out, AllOf(HasSubstr("crossed-rails"), HasSubstr("remedy  swap the two cables")));
  const Ended broken = Run({"doctor", texts + "slurm-tree-broken.conf", texts + "kueue.yaml"});
  EXPECT_EQ(broken.code, kExitUnreadable);
  EXPECT_THAT(broken.out, AllOf(HasSubstr("undefined child row7"), HasSubstr("kueue_topology")));
  const Ended missing = Run({"doctor", "/no/such/file"});
  EXPECT_EQ(missing.code, kExitUnreadable);
  EXPECT_EQ(missing.out, "cannot read /no/such/file: No such file or directory\n");
}

TEST_F(CommandTest, DoctorAnswersProgramsToo) {
  const std::string text =
      asterism::test_paths::SourceTree() + "/test/golden/topology/nvlink-status.txt";
  const Ended ended = Run({"doctor", text, "-o", "json"});
  EXPECT_EQ(ended.code, kExitFindings);
  const json answer = json::parse(ended.out);
  EXPECT_EQ(answer["clean"], false);
  EXPECT_EQ(answer["findings"][0]["kind"], "nvlink-link-down");
  EXPECT_EQ(answer["texts"][0]["summary"]["status"], "ok");
}

TEST_F(CommandTest, DoctorWithoutFilesAsksTheController) {
  const json page = json::parse(R"({"leading": true, "generation": 7,
    "clean": false, "texts": [{"name": "agents", "summary": {"format": "ready", "nodes": 12}},
                              {"name": "labels", "summary": {"format": "ready", "nodes": 12}}],
    "findings": [{"kind": "nvlink-link-down", "objects": ["gpu-7"],
                  "evidence": "2 of 144 NVLinks are down, says its agent", "source": "live"},
                 {"kind": "from-the-future", "objects": ["x"], "evidence": "?"}]})");
  Answer(std::string(kProxy) + "doctorz", page);
  Answer("/clean/doctorz",
         json::parse(R"({"leading": true, "clean": true, "texts": [], "findings": []})"));
  Answer("/broken/doctorz", json::parse(R"({"findings": 3})"));
  Serve();
  const Ended ended = Run({"doctor"});
  EXPECT_EQ(ended.code, kExitFindings) << ended.error;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("agents: ready, 12 nodes"), HasSubstr("nvlink-link-down"),
                               HasSubstr("gpu-7: 2 of 144 NVLinks are down"), HasSubstr("remedy"),
                               HasSubstr("1 findings are of kinds")));
  EXPECT_EQ(json::parse(Run({"doctor", "-o", "json"}).out)["findings"][0]["kind"],
            "nvlink-link-down");
  const Ended clean = Run({"doctor", "--server", Url() + "/clean"});
  EXPECT_EQ(clean.code, kExitDone) << clean.error;
  EXPECT_THAT(clean.out, HasSubstr("nothing is wrong"));
  const Ended broken = Run({"doctor", "--server", Url() + "/broken"});
  EXPECT_EQ(broken.code, kExitUnreadable);
  EXPECT_THAT(broken.error, HasSubstr("findings"));
  EXPECT_EQ(Run({"doctor", "-o", "svg", "x"}).code, kExitUsage);
}

TEST_F(CommandTest, AMissingJobIsNamedWithNearOnes) {
  Answer(kJobs, ListOf({TestJob("llama", 8), TestJob("bert", 8)}));
  Answer(std::string(kJobs) + "/lama",
         Refusal(404, "NotFound", "trainingjobs.asterism.dev \"lama\" not found"), 404);
  Serve();
  const Ended ended = Run({"explain", "lama"});
  EXPECT_EQ(ended.code, kExitError);
  EXPECT_THAT(ended.error, AllOf(StartsWith("error: there is no TrainingJob \"lama\" in namespace "
                                            "\"research\": did you mean \"llama\"?"),
                                 HasSubstr("-n chooses another namespace")));
}

TEST_F(CommandTest, AClusterWithoutOurKindsSaysSo) {
  Serve();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"explain", "llama"}, {"queue"}, {"top"}}) {
    const Ended ended = Run(words);
    EXPECT_EQ(ended.code, kExitError);
    EXPECT_THAT(ended.error, HasSubstr("does not know asterism.dev/v1alpha1: install Asterism"));
  }
}

TEST_F(CommandTest, MissingRightsAreNamed) {
  const json refusal = Refusal(403, "Forbidden", "User \"eve\" cannot list resource");
  Answer(kAllJobs, refusal, 403);
  Answer(kJobs, ListOf({WaitingJob("waits", 512, "NoCapacity", 1)}));
  Answer(kQueues, ListOf({TestQueue("research", 64, 2048)}));
  Answer(std::string(kProxy) + "topologyz", refusal, 403);
  Serve();
  const Ended top = Run({"top", "-A"});
  EXPECT_EQ(top.code, kExitError);
  EXPECT_THAT(top.error, AllOf(HasSubstr("you may not list trainingjobs.asterism.dev in all"),
                               HasSubstr("asterism-view")));
  const Ended queue = Run({"queue"});
  EXPECT_EQ(queue.code, kExitDone);
  EXPECT_THAT(queue.out, AllOf(HasSubstr("waits"), HasSubstr("only the jobs of namespace")));
  const Ended topology = Run({"topology"});
  EXPECT_EQ(topology.code, kExitError);
  EXPECT_THAT(topology.error, HasSubstr("services/proxy \"https:asterism-extender:diagnosis\""));
}

TEST_F(CommandTest, QueueAndTopPrintTables) {
  Answer(kAllJobs, ListOf({WaitingJob("waits", 512, "NoCapacity", 1), RunningJob("runs", 1)}));
  Answer(kJobs, ListOf({RunningJob("runs", 1)}));
  Answer(kQueues, ListOf({TestQueue("research", 64, 2048), TestQueue("vision", 0, 64)}));
  Serve();
  EXPECT_THAT(Run({"queue"}).out, AllOf(HasSubstr("vision"), HasSubstr("NoCapacity")));
  EXPECT_THAT(Run({"queue", "vision"}).out, HasSubstr("no job waits"));
  EXPECT_THAT(Run({"queue", "visoin"}).error, HasSubstr("did you mean \"vision\"?"));
  EXPECT_THAT(Run({"top", "-A"}).out, HasSubstr("2 jobs: 1 placed on 32 GPUs"));
  EXPECT_EQ(json::parse(Run({"top", "-ojson"}).out)["jobs"].size(), 1u);
}

TEST_F(CommandTest, TheControllerIsAskedDirectlyOrThroughItsService) {
  const json page = json::parse(TestTopology({"node", "cluster"}, 4, {}).Text());
  Answer("/topologyz", page);
  Answer("/versionz", {{"version", "9.9.9"}, {"leading", false}});
  Answer(std::string(kProxy) + "topologyz", page);
  Serve();
  EXPECT_THAT(Run({"topology"}).out, HasSubstr("32 of 32 GPUs free"));
  EXPECT_THAT(Run({"topology", "--server", Url() + "/"}).out, HasSubstr("32 of 32 GPUs free"));
  EXPECT_EQ(json::parse(Run({"topology", "-o", "json", "--level", "node"}).out)["domains"].size(),
            4u);
  const Ended level = Run({"topology", "--level", "rack"});
  EXPECT_EQ(level.code, kExitUsage);
  EXPECT_THAT(level.error, HasSubstr("\"rack\" is not a level of this cluster (node, cluster)"));
  EXPECT_THAT(Run({"version", "-s", Url()}).out, HasSubstr("9.9.9 (does not lead)"));
  EXPECT_EQ(Run({"topology", "--server", "127.0.0.1"}).code, kExitUsage);
}

TEST_F(CommandTest, WhatStandsBetweenUsAndTheControllerIsNamed) {
  Answer(std::string(kProxy) + "topologyz",
         Refusal(404, "NotFound", "services \"asterism-extender\" not found"), 404);
  Answer(std::string(kProxy) + "versionz",
         Refusal(503, "ServiceUnavailable",
                 "no endpoints available for service \"asterism-extender\""),
         503);
  routes_.Add("GET", "/topologyz", [](const auto&, auto& response) {
    response.code = 503;
    response.content_type = "text/plain";
    response.body = "this process does not lead, or its ledger is not rebuilt yet\n";
  });
  Serve();
  EXPECT_THAT(Run({"topology"}).error, HasSubstr("is Asterism installed there?"));
  const Ended version = Run({"version"});
  EXPECT_EQ(version.code, kExitError);
  EXPECT_THAT(version.out, HasSubstr("client:"));
  EXPECT_THAT(version.error, HasSubstr("no controller leads in namespace"));
  EXPECT_EQ(Run({"version", "--client"}).code, kExitDone);
  EXPECT_THAT(Run({"topology", "--server", Url()}).error,
              AllOf(HasSubstr("does not lead"), HasSubstr("ask the leader")));
  EXPECT_THAT(Run({"version", "--server", Url()}).error, HasSubstr("has no page /versionz"));
}

TEST_F(CommandTest, NoKubeconfigAndNoServerAreOneLineEach) {
  kubeconfig_.home = folder_.string();
  EXPECT_THAT(Run({"top"}).error, HasSubstr("no kubeconfig: set KUBECONFIG or create"));
  WriteKubeconfig(1);
  const Ended away = Run({"top"});
  EXPECT_EQ(away.code, kExitError);
  EXPECT_THAT(away.error, AllOf(HasSubstr("http://127.0.0.1:1 does not answer"),
                                HasSubstr("kubectl cluster-info")));
  EXPECT_THAT(Run({"top", "--context", "other"}).error, HasSubstr("no context named \"other\""));
  EXPECT_THAT(Run({"top", "--kubeconfig", "/none"}).error, HasSubstr("/none"));
  EXPECT_THAT(Run({"topology", "--server", "http://127.0.0.1:1"}).error,
              HasSubstr("does not answer"));
}

TEST_F(CommandTest, HelpAndCompletionAskNobody) {
  EXPECT_THAT(Run({"--help"}).out, HasSubstr("Usage: kubectl asterism VERB"));
  EXPECT_THAT(Run({"help", "explain"}).out, HasSubstr("explain JOB"));
  EXPECT_THAT(Run({"completion", "bash"}).out, HasSubstr("complete -F"));
  EXPECT_EQ(Run({"completion", "tcsh"}).code, kExitUsage);
  EXPECT_EQ(Run({"help", "expain"}).code, kExitUsage);
  EXPECT_EQ(Run({}).code, kExitUsage);
  EXPECT_THAT(Run({"top", "--help"}).error, IsEmpty());
}

// What bash offers behind these words; the last one is being typed.
std::string Completed(const std::string& script, const std::string& words) {
  const std::string path = ::testing::TempDir() + "completion-" + std::to_string(getpid());
  std::ofstream(path) << script << "COMP_WORDS=(kubectl-asterism " << words << ")\n"
                      << "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
                      << "_kubectl_asterism\necho ${COMPREPLY[*]}\n";
  FILE* const bash =
      popen(("cd " + asterism::test_paths::SourceTree() + " && bash --norc " + path).c_str(), "r");
  std::string answer;
  char piece[256];
  while (fgets(piece, sizeof(piece), bash) != nullptr) {
    answer += piece;
  }
  pclose(bash);
  std::filesystem::remove(path);
  return answer;
}

TEST_F(CommandTest, BashOffersWhatAVerbTakes) {
  const std::string script = Run({"completion", "bash"}).out;
  const std::pair<const char*, const char*> cases[] = {
      {"top", "topology top\n"},           {"topology -o ''", "json yaml wide dot svg\n"},
      {"queue -o ''", "json yaml wide\n"}, {"plan --output me", "megatron\n"},
      {"plan -f README.m", "README.md\n"}, {"plan --cluster LIC", "LICENSE\n"},
      {"doctor LIC", "LICENSE\n"},         {"doctor --serv", "--server\n"},
      {"plan --conf", "--config\n"},       {"completion f", "fish\n"}};
  for (const auto& [words, offered] : cases) {
    EXPECT_EQ(Completed(script, words), offered) << words;
  }
}

}  // namespace
}  // namespace asterism::cli
