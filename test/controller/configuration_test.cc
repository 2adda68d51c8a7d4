#include "controller/configuration.h"

#include <rapidcheck.h>

#include <string>
#include <vector>

#include "controller/configuration_fields.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace asterism::controller {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string WithHeader(std::string_view fields) {
  return fmt::format("apiVersion: {}\nkind: {}\n{}\n", kConfigurationApiVersion, kConfigurationKind,
                     fields);
}
absl::StatusOr<Configuration> ParseFields(std::string_view fields) {
  return ParseConfiguration(WithHeader(fields));
}
// What is wrong with these fields.
std::string ErrorsOf(std::string_view fields) {
  return std::string(ParseFields(fields).status().message());
}

TEST(Configuration, ADefaultNeedsOnlyTheHeader) {
  const auto configuration = ParseFields("");
  ASSERT_TRUE(configuration.ok()) << configuration.status();
  EXPECT_EQ(*configuration, Configuration());
}

TEST(Configuration, TheDefaultsAreThoseOfTheApi) {
  const Configuration defaults;
  EXPECT_EQ(defaults.bind_deadline, absl::Seconds(30));
  EXPECT_EQ(defaults.scheduler_name, "asterism");
  EXPECT_THAT(defaults.resource_names, ElementsAre("nvidia.com/gpu"));
  EXPECT_EQ(defaults.levels[1].kind, topology::LevelSource::Kind::kAuto);
  EXPECT_FALSE(defaults.taint_nodes);
}

TEST(Configuration, ReadsEveryField) {
  const auto configuration = ParseFields(R"(
levels: [{name: node}, {name: rack, source: {label: example.com/rack}}, {name: cluster}]
schedulerName: my-asterism
resourceNames: [nvidia.com/gpu, amd.com/gpu]
nodeSelector: "pool=gpu"
bindDeadlineSeconds: 12.5
commit: Scheduler
taintNodes: false
podWatch: All
ports: {https: 0, metrics: 9090, grpc: 9091}
leaderElection: {leaseDurationSeconds: 3, renewDeadlineSeconds: 2, retryPeriodSeconds: 0.5}
tls: {mode: Files, certFile: /tls/tls.crt, keyFile: /tls/tls.key, clientCaFile: /tls/ca.crt}
agents: {enabled: true, relays: "On", relaysAboveNodes: 9, relayLevel: rack, relayMembersMax: 7}
)");
  ASSERT_TRUE(configuration.ok()) << configuration.status();
  EXPECT_EQ(configuration->levels[1], (LevelConfiguration{"rack", "example.com/rack"}));
  EXPECT_EQ(configuration->scheduler_name, "my-asterism");
  EXPECT_THAT(configuration->resource_names, ElementsAre("nvidia.com/gpu", "amd.com/gpu"));
  EXPECT_EQ(NodeSelectorOf(*configuration).size(), 1u);
  EXPECT_EQ(configuration->bind_deadline, absl::Milliseconds(12'500));
  EXPECT_FALSE(configuration->taint_nodes);
  EXPECT_EQ(configuration->ports, (PortConfiguration{0, 9090, 9091}));
  EXPECT_EQ(configuration->leader_election.retry_period, absl::Milliseconds(500));
  EXPECT_EQ(configuration->tls.client_ca_file, "/tls/ca.crt");
  EXPECT_EQ(configuration->agents.relays, (RelayConfiguration{RelayMode::kOn, 9, "rack", 7}));
}

TEST(Configuration, EmptyValuesMeanTheDefault) {
  const auto configuration = ParseFields("ports:\ntls: ~\nnodeSelector:\nports: \n");
  EXPECT_FALSE(configuration.ok()) << "a key twice";
  EXPECT_EQ(*ParseFields("ports:\ntls: ~\nnodeSelector:\nbindDeadlineSeconds:"), Configuration());
}

TEST(Configuration, NeedsItsHeader) {
  EXPECT_THAT(std::string(ParseConfiguration("").status().message()),
              HasSubstr("start it with apiVersion: config.asterism.dev/v1alpha1"));
  EXPECT_EQ(ParseConfiguration("kind: Other\napiVersion: v1").status(),
            absl::InvalidArgumentError(
                "apiVersion: \"v1\" is not known: write config.asterism.dev/v1alpha1\n"
                "kind: \"Other\" is not known: write AsterismConfiguration"));
  EXPECT_THAT(std::string(ParseConfiguration("{}").status().message()),
              HasSubstr("apiVersion: is missing: write apiVersion: config.asterism.dev/v1alpha1"));
}

TEST(Configuration, UnknownKeysNameTheNearestKnownOne) {
  EXPECT_EQ(ErrorsOf("bindDeadlineSecond: 3"),
            "bindDeadlineSecond: is not a known field (line 3): did you mean bindDeadlineSeconds?");
  EXPECT_EQ(ErrorsOf("ports: {htps: 1}"),
            "ports.htps: is not a known field (line 3): did you mean ports.https?");
  // The right key at the wrong place.
  EXPECT_EQ(ErrorsOf("retryPeriodSeconds: 1"),
            "retryPeriodSeconds: is not a known field (line 3): did you mean "
            "leaderElection.retryPeriodSeconds?");
  EXPECT_EQ(ErrorsOf("port: {}"), "port: is not a known field (line 3): did you mean ports?");
}

TEST(Configuration, TellsAllErrorsAtOnce) {
  EXPECT_EQ(
      ErrorsOf("ports: {https: 70000}\npodWatch: Own\nbindDeadlineSeconds: 0\nkinds: 1"),
      "kinds: is not a known field (line 6): did you mean kind?\n"
      "bindDeadlineSeconds: 0 is out of range: use 1 to 3600 seconds\n"
      "podWatch: Own is not available in this version: use All: Own needs an agent on every GPU "
      "node\n"
      "ports.https: \"70000\" is not a port: use a whole number from 0 to 65535 (0 takes a "
      "free port)");
}

struct BadField {
  const char* fields;
  const char* error;
};

TEST(Configuration, RefusesWrongValuesWithARemedy) {
  const std::vector<BadField> cases = {
      {"schedulerName: default-scheduler", "schedulerName: \"default-scheduler\" is the scheduler"},
      {"schedulerName: Bad_Name", "schedulerName: \"Bad_Name\" is not a name: use lower-case"},
      {"schedulerName: ''", "schedulerName: \"\" is not a name"},
      {"schedulerName: [a]", "schedulerName: has a list or a map (line 3): give a DNS subdomain"},
      {"resourceNames: []", "resourceNames: is not a list of names: give 1 to 8 names"},
      {"resourceNames: nvidia.com/gpu", "resourceNames: is not a list of names"},
      {"resourceNames: [cpu]", "resourceNames[0]: \"cpu\" is not an extended resource"},
      {"resourceNames: [a.b/c, a.b/c]", "resourceNames[1]: a.b/c is there twice: remove one"},
      {"resourceNames: [a.b/c, {}]", "resourceNames[1]: \"\" is not an extended resource"},
      {"nodeSelector: 'pool in gpu'", "nodeSelector: is not a label selector: expected \"(\" at"},
      {"bindDeadlineSeconds: 30s", "\"30s\" is not a number: write seconds without a unit"},
      {"bindDeadlineSeconds: '30'", "\"30\" is not a number"},
      {"bindDeadlineSeconds: .inf", "bindDeadlineSeconds: \".inf\" is not a number"},
      {"bindDeadlineSeconds: nan", "bindDeadlineSeconds: \"nan\" is not a number"},
      {"bindDeadlineSeconds: 1e9", "bindDeadlineSeconds: 1e9 is out of range"},
      {"commit: direct", "use one of Scheduler, Direct (Direct is nearest)"},
      {"podWatch: Own", "podWatch: Own is not available in this version: use All"},
      {"taintNodes: yes", "taintNodes: \"yes\" is not a yes or no: write true or false"},
      {"commit: Direct", "commit: Direct needs nodes that no other scheduler uses: set taintNodes"},
      {"taintNodes: 'true'", "taintNodes: \"true\" is not a yes or no"},
      {"agents: {relays: Sometimes}", "use one of Auto, On, Off"},
      {"agents: {relayLevel: rack}",
       "agents.relayLevel: \"rack\" is no level above the node: use one of supernode, cluster"},
      {"agents: {relayLevel: node}", "agents.relayLevel: \"node\" is no level above the node"},
      {"agents: {relayMembersMax: 0}",
       "agents.relayMembersMax: \"0\" is not a number from 1 to 512"},
      {"ports: 5", "ports: is not a map (line 3): write ports: {https: ...}"},
      {"ports: {https: -1}", "ports.https: \"-1\" is not a port"},
      {"ports: {https: 80.5}", "ports.https: \"80.5\" is not a port"},
      {"ports: {https: 99999999999}", "ports.https: \"99999999999\" is not a port"},
      {"ports: {https: 8080}", "ports.metrics: 8080 is ports.https too: use two ports"},
      {"ports: {https: 9443}", "ports.grpc: 9443 is ports.https too: use two ports"},
      {"ports: {metrics: 9443}", "ports.grpc: 9443 is ports.metrics too: use two ports"},
      {"leaderElection: {renewDeadlineSeconds: 15}",
       "leaderElection.leaseDurationSeconds: 15 is not more than renewDeadlineSeconds (15)"},
      {"leaderElection: {renewDeadlineSeconds: 2.4}",
       "leaderElection.renewDeadlineSeconds: 2.4 is not more than 1.2 x retryPeriodSeconds (2)"},
      {"tls: {mode: Files, certFile: a}", "tls.keyFile: is missing: name the file"},
      {"tls: {mode: Files, keyFile: a}", "tls.certFile: is missing"},
      {"tls: {clientCaFile: a}", "tls.clientCaFile: has no use in this tls.mode"},
      {"tls: {mode: Plain, keyFile: a}", "tls.keyFile: has no use in this tls.mode"},
      {"tls: {mode: own}", "tls.mode: \"own\""},
      {"tls: {certFile: \"a\\0b\", keyFile: k}", "tls.certFile: \"a\\x00b\" is not a file name"},
  };
  for (const BadField& bad : cases) {
    EXPECT_THAT(ErrorsOf(bad.fields), HasSubstr(bad.error)) << bad.fields;
  }
}

TEST(Configuration, EveryErrorHasAProblemAndARemedy) {
  const std::string errors =
      ErrorsOf("x: 1\nports: {https: a}\nlevels: 1\ncommit: 5\nresourceNames: 3\ntls: 1");
  size_t lines = 0;
  size_t begin = 0;
  while (begin < errors.size()) {
    const size_t end = std::min(errors.find('\n', begin), errors.size());
    const std::string line = errors.substr(begin, end - begin);
    EXPECT_THAT(line, testing::MatchesRegex("[^ ]+: .+: .+"));
    begin = end + 1;
    ++lines;
  }
  EXPECT_EQ(lines, 6u);
}

TEST(Configuration, FractionsOfSecondsAreExact) {
  const auto configuration = ParseFields(
      "leaderElection: {leaseDurationSeconds: 1, renewDeadlineSeconds: 0.7, "
      "retryPeriodSeconds: 0.3}");
  ASSERT_TRUE(configuration.ok()) << configuration.status();
  EXPECT_EQ(configuration->leader_election.renew_deadline, absl::Milliseconds(700));
}

// The Lease records whole seconds: with a fraction a standby would take over too early.
TEST(Configuration, TheLeaseLastsWholeSeconds) {
  const auto errors_of = [](std::string_view times) {
    return ErrorsOf(fmt::format("leaderElection: {{{}}}", times));
  };
  EXPECT_THAT(
      errors_of("leaseDurationSeconds: 0.5, renewDeadlineSeconds: 0.3, retryPeriodSeconds: 0.1"),
      HasSubstr("leaderElection.leaseDurationSeconds: 0.5 is out of range"));
  EXPECT_THAT(
      errors_of("leaseDurationSeconds: 1.9, renewDeadlineSeconds: 1.8, retryPeriodSeconds: 0.5"),
      HasSubstr("leaderElection.leaseDurationSeconds: 1.9 has a fraction"));
  EXPECT_THAT(
      errors_of("leaseDurationSeconds: 1, renewDeadlineSeconds: 1.0, retryPeriodSeconds: 0.5"),
      HasSubstr("leaderElection.leaseDurationSeconds: 1 is not more than"));
  EXPECT_TRUE(
      ParseFields("leaderElection: {leaseDurationSeconds: 3.0, renewDeadlineSeconds: 2.9}").ok());
}

// A configuration that ParseConfiguration could have given.
Configuration DrawConfiguration() {
  const auto name = [](const char* letters) {
    return *rc::gen::nonEmpty(
        rc::gen::container<std::string>(rc::gen::elementOf(std::string(letters))));
  };
  Configuration drawn;
  drawn.scheduler_name = "s" + name("abc019").substr(0, 30);
  drawn.node_selector = *rc::gen::element<std::string>("", "pool=gpu", "a in (b, c),!d");
  drawn.bind_deadline = absl::Milliseconds(*rc::gen::inRange(1000, 3'600'000));
  drawn.ports = {*rc::gen::inRange(1, 30'000), *rc::gen::inRange(30'000, 50'000),
                 *rc::gen::inRange(50'000, 65'536)};
  const int lease_seconds = *rc::gen::inRange(1, 3601);
  const int renew_ms = *rc::gen::inRange(300, lease_seconds * 1000);
  drawn.leader_election = {absl::Seconds(lease_seconds), absl::Milliseconds(renew_ms),
                           absl::Milliseconds(*rc::gen::inRange(100, renew_ms / 2))};
  drawn.tls.mode = TlsMode::kFiles;
  drawn.tls.cert_file = name("a/\"\\ \n#:{\t");
  drawn.tls.key_file = name("'!&*%@`-?");
  drawn.resource_names = {"a.com/" + name("xyz").substr(0, 40)};
  drawn.levels = {{"node", ""}};
  for (int i = *rc::gen::inRange(0, 14); i > 0; --i) {
    drawn.levels.push_back({fmt::format("ring-{}", i), fmt::format("example.com/ring-{}", i)});
  }
  using Kind = topology::LevelSource::Kind;
  if (*rc::gen::arbitrary<bool>()) {
    drawn.levels.push_back({"measured", "",
                            *rc::gen::element(Kind::kAuto, Kind::kNvlink, Kind::kLeafGroup,
                                              Kind::kTier, Kind::kDeclared)});
    drawn.levels.push_back(
        {"slice", "", Kind::kSlice, static_cast<size_t>(*rc::gen::inRange(1, 4097))});
  }
  drawn.levels.push_back({"cluster", ""});
  while (drawn.levels.size() > 16) {
    drawn.levels.erase(drawn.levels.begin() + 1);
  }
  drawn.agents.relays = {*rc::gen::element(RelayMode::kAuto, RelayMode::kOn, RelayMode::kOff),
                         *rc::gen::inRange(1, 100'001),
                         *rc::gen::element<std::string>("", "cluster"), *rc::gen::inRange(1, 513)};
  drawn.topology.fabric_files = {"/" + name("ab/\"# "), "/x"};
  drawn.topology.agent_ttl = absl::Milliseconds(*rc::gen::inRange(1000, 86'400'000));
  drawn.topology.mass_change_percent = *rc::gen::inRange(1, 101);
  drawn.topology.nvlink_domain_gpus_max = *rc::gen::inRange(1, 1000);
  drawn.topology.label_nodes = *rc::gen::arbitrary<bool>();
  return drawn;
}

TEST(ConfigurationToYaml, ReadsBackTheSame) {
  EXPECT_TRUE(rc::check("print and parse are opposites", [] {
    const Configuration drawn = DrawConfiguration();
    const auto again = ParseConfiguration(ConfigurationToYaml(drawn));
    RC_ASSERT(again.ok());
    RC_ASSERT(*again == drawn);
  }));
}

TEST(ConfigurationToYaml, ShowsTheDefaultWhereItDiffers) {
  Configuration configuration;
  configuration.bind_deadline = absl::Seconds(60);
  const std::string yaml = ConfigurationToYaml(configuration);
  EXPECT_THAT(yaml, HasSubstr("bindDeadlineSeconds: 60  # default: 30\n"));
  EXPECT_THAT(yaml, HasSubstr("taintNodes: false\n"));
  EXPECT_THAT(yaml, HasSubstr("ports:\n  https: 8443\n  metrics: 8080\n  grpc: 9443\n"));
}

TEST(DiffForReload, SaysNothingWhenNothingChanged) {
  const ReloadDifference difference = DiffForReload(Configuration(), Configuration());
  EXPECT_THAT(difference.applied, IsEmpty());
  EXPECT_THAT(difference.needs_restart, IsEmpty());
  EXPECT_EQ(difference.result, Configuration());
}

TEST(DiffForReload, TakesOverOnlyWhatIsSafe) {
  const Configuration running;
  Configuration wanted;
  wanted.bind_deadline = absl::Seconds(60);
  wanted.ports.https = 7443;
  wanted.levels.erase(wanted.levels.begin() + 1);
  const ReloadDifference difference = DiffForReload(running, wanted);
  EXPECT_THAT(difference.applied, ElementsAre("bindDeadlineSeconds"));
  EXPECT_THAT(difference.needs_restart, ElementsAre("levels", "ports.https"));
  Configuration expected = running;
  expected.bind_deadline = absl::Seconds(60);
  EXPECT_EQ(difference.result, expected);
}

// Every row reads what it writes and copies what it reads: a row with a wrong accessor shows here.
TEST(ConfigurationFields, EachRowWorksOnItsOwnMember) {
  EXPECT_TRUE(rc::check("copy moves exactly one field", [] {
    const Configuration source = DrawConfiguration();
    for (const ConfigurationField& field : ConfigurationFields()) {
      Configuration target;
      field.copy(source, target);
      for (const ConfigurationField& other : ConfigurationFields()) {
        const Configuration& expected = &other == &field ? source : Configuration();
        RC_ASSERT(other.write(target) == other.write(expected));
      }
    }
  }));
}

}  // namespace
}  // namespace asterism::controller
