// docs/metrics.md says what the program declares. ASTERISM_WRITE_DOCS=1 writes it anew.
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "controller/call_admission.h"
#include "controller/certificate_metrics.h"
#include "controller/cluster_metrics.h"
#include "controller/relay_metrics.h"
#include "fake_cluster.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "kube/request_metrics.h"
#include "server/http_server.h"
#include "test/source_tree.h"

namespace asterism::controller {
namespace {

constexpr char kHead[] = R"(# Metrics

What `GET /metrics` of the controller shows, written by `test/controller/metrics_page_test.cc` from the program itself. Counters grow
until the program ends; a histogram has `_bucket`, `_sum` and `_count`. Times are in seconds. Labels have few values: no pod, node or
job is ever one. The alerts over them are in `charts/asterism/files/monitoring/rules.yaml`, the Grafana board beside it.

| name | type | labels | what it says |
|---|---|---|---|
)";

std::string Page(const base::MetricRegistry& registry) {
  std::string page = kHead;
  for (const base::MetricDescription& metric : registry.Describe()) {
    std::string labels;
    for (const std::string& label : metric.labels) {
      labels += (labels.empty() ? "`" : ", `") + label + "`";
    }
    page += fmt::format("| `{}` | {} | {} | {} |\n", metric.name, metric.type, labels, metric.help);
  }
  return page;
}

TEST(MetricsPageTest, DocumentsWhatTheProgramDeclares) {
  FakeCluster cluster(1);
  cluster.StartController("a");
  base::MetricRegistry& registry = cluster.registry("a");
  // What main.cc adds around the control plane; the end-to-end tests compare with the real page.
  const base::SystemClock clock;
  const kube::RequestMetrics requests(clock, registry);
  const server::HttpServerMetrics http(registry);
  const ClusterMetrics gauges(registry);
  const CallAdmission calls(clock, registry, {});
  const CertificateMetrics certificates(registry);
  const RelayMetrics relays(registry);
  const std::string path = asterism::test_paths::SourceTree() + "/docs/metrics.md";
  const std::string page = Page(registry);
  if (std::getenv("ASTERISM_WRITE_DOCS") != nullptr) {
    std::ofstream(path) << page;
  }
  std::stringstream written;
  written << std::ifstream(path).rdbuf();
  EXPECT_EQ(written.str(), page)
      << "run it once with ASTERISM_WRITE_DOCS=1 and commit docs/metrics.md";
}

TEST(MetricsPageTest, NamesFollowTheConventionsOfPrometheus) {
  FakeCluster cluster(1);
  cluster.StartController("a");
  for (const base::MetricDescription& metric : cluster.registry("a").Describe()) {
    EXPECT_TRUE(metric.name.starts_with("asterism_")) << metric.name;
    EXPECT_EQ(metric.name.ends_with("_total"), metric.type == "counter") << metric.name;
    EXPECT_TRUE(metric.type != "histogram" || metric.name.ends_with("_seconds")) << metric.name;
    EXPECT_TRUE(metric.help.ends_with('.')) << metric.name;
  }
}

}  // namespace
}  // namespace asterism::controller
