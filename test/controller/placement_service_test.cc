// What each method of asterism.v1.Placement answers, and to whom, over a real connection.
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "grpc_fixture.h"
#include "nlohmann/json.hpp"
#include "operator/node_ranges.h"

namespace asterism::controller {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class PlacementServiceTest : public GrpcFixture {
 protected:
  PlacementServiceTest() { Serve(); }

  grpc::Status AskPlace(const std::string& job_json, const std::string& token = kAda) {
    v1::PlaceRequest request;
    request.set_training_job_json(job_json);
    v1::PlaceResponse response;
    return Call([&](auto* async, auto* context,
                    auto done) { async->Place(context, &request, &response, std::move(done)); },
                {.token = token});
  }
  grpc::Status Explain(const std::string& name, v1::ExplainResponse& response,
                       const std::string& token = kAda,
                       const std::string& name_space = "research") {
    v1::ExplainRequest request;
    request.mutable_job()->set_namespace_(name_space);
    request.mutable_job()->set_name(name);
    return Call([&](auto* async, auto* context,
                    auto done) { async->Explain(context, &request, &response, std::move(done)); },
                {.token = token});
  }
  grpc::Status GetLedger(const v1::GetLedgerRequest& request, v1::GetLedgerResponse& response,
                         const std::string& token = kAda) {
    return Call([&](auto* async, auto* context,
                    auto done) { async->GetLedger(context, &request, &response, std::move(done)); },
                {.token = token});
  }
  void Start(const std::string& name, int gpus, const nlohmann::json& spec = {}) {
    cluster_.CreateJob(name, gpus, spec);
    ASSERT_TRUE(cluster_.RunUntil([&] { return cluster_.StateOf(name) == "Running"; }));
  }
  // A job of a namespace in which ada has no right.
  void StartElsewhere(const std::string& name, int gpus) {
    cluster_.server().Put(kube::kNamespaces, {{"metadata", {{"name", "secret"}}}});
    nlohmann::json job = nlohmann::json::parse(JobJson(gpus, {}, "secret"));
    job["metadata"]["name"] = name;
    cluster_.server().Put(operators::kTrainingJobs, job);
    ASSERT_TRUE(cluster_.RunUntil([&] {
      const auto object = cluster_.server().Find(operators::kTrainingJobs, {"secret", name});
      const std::string state =
          object->value("status", nlohmann::json::object()).value("state", "");
      return state == "Placed" || state == "Starting" || state == "Running" || state == "Admitted";
    }));
    cluster_.Run(absl::Seconds(1));
  }
};

v1::Change NodeChange(v1::NodeList* (v1::Change::*field)(), const std::string& nodes) {
  v1::Change change;
  (change.*field)()->set_nodes(nodes);
  return change;
}

TEST_F(PlacementServiceTest, ADryRunTellsWhatTheOperatorThenDoes) {
  Start("hog", 8 * 3);
  const v1::Decision decision = Place(64);
  ASSERT_EQ(decision.outcome(), v1::Decision::PLACED) << last_status().error_message();
  EXPECT_EQ(decision.effective().pods(), 8);
  EXPECT_EQ(decision.effective().gpus_per_pod(), 8);
  EXPECT_EQ(decision.effective().gpu_product(), "H100");
  EXPECT_EQ(decision.queue_position(), 1);
  EXPECT_EQ(decision.placement().levels(0).domains(), 8);
  EXPECT_THAT(cluster_.Job("asked"), ::testing::Eq(nlohmann::json())) << "nothing is created";
  Start("asked", 64);
  const nlohmann::json placement = cluster_.StatusOf("asked")["placement"];
  ASSERT_EQ(placement["runs"].size(), static_cast<size_t>(decision.placement().runs_size()));
  for (int i = 0; i < decision.placement().runs_size(); ++i) {
    const v1::Run& run = decision.placement().runs(i);
    const nlohmann::json& real = placement["runs"][static_cast<size_t>(i)];
    EXPECT_EQ(run.nodes(), real["nodes"]);
    EXPECT_EQ(run.domain(), real["domain"]);
    EXPECT_EQ(run.first_rank(), real["firstRank"]);
    EXPECT_EQ(run.ranks(), real["ranks"]);
  }
}

// Many clusters and jobs: what a dry run says is what happens, and why.
TEST_F(PlacementServiceTest, ADryRunIsNeverWrong) {
  base::Rng rng(7);
  int placed = 0;
  for (int i = 0; i < 40; ++i) {
    const int gpus = 8 * static_cast<int>(1 + rng.Below(8));
    nlohmann::json spec = nlohmann::json::object();
    if (rng.Chance(0.4)) {
      spec["placement"]["levels"] = nlohmann::json::array(
          {{{"level", "supernode"}, {"mode", rng.Chance(0.5) ? "Required" : "Preferred"}}});
    }
    const std::string name = "job" + std::to_string(i);
    const v1::Decision decision = Place(gpus, spec);
    cluster_.CreateJob(name, gpus, spec);
    cluster_.Run(absl::Seconds(5));
    const nlohmann::json status = cluster_.StatusOf(name);
    if (decision.outcome() == v1::Decision::PLACED) {
      ++placed;
      ASSERT_EQ(cluster_.StateOf(name), "Running") << i;
      EXPECT_EQ(decision.placement().runs(0).nodes(), status["placement"]["runs"][0]["nodes"]) << i;
    } else {
      EXPECT_EQ(decision.reason(), status["waiting"]["reason"]) << i;
      EXPECT_EQ(decision.message(), status["waiting"]["message"]) << i;
      cluster_.DeleteJob(name);
    }
    if (rng.Chance(0.5)) {
      const std::string ended = "job" + std::to_string(rng.Below(static_cast<uint64_t>(i) + 1));
      if (!cluster_.Job(ended).is_null()) {
        cluster_.DeleteJob(ended);
      }
      cluster_.Run(absl::Seconds(5));
    }
  }
  EXPECT_GT(placed, 5);
  EXPECT_LT(placed, 40);
}

nlohmann::json ModelSpec(const nlohmann::json& plan) {
  return {{"framework", "MegatronLM"},
          {"model", {{"preset", "llama-3-8b"}, {"globalBatchSize", 128}, {"sequenceLength", 8192}}},
          {"plan", plan}};
}

// A job with a model asks for what its plan asks for: so many pods, one product, groups together.
TEST_F(PlacementServiceTest, ADryRunOfAJobWithAModelIsThatOfItsPlan) {
  base::Rng rng(11);
  int placed = 0;
  for (int i = 0; i < 12; ++i) {
    // 128 sequences do not divide by all of these: some plans leave spares.
    const int gpus = 8 * static_cast<int>(1 + rng.Below(9));
    nlohmann::json plan = {{"maxSpareGpus", 16}};
    if (rng.Chance(0.5) && gpus >= 32) {
      plan["pipeline"] = 2;
    }
    const nlohmann::json spec = ModelSpec(plan);
    const std::string name = "job" + std::to_string(i);
    const v1::Decision decision = Place(gpus, spec);
    cluster_.CreateJob(name, gpus, spec);
    cluster_.Run(absl::Seconds(5));
    const nlohmann::json status = cluster_.StatusOf(name);
    if (decision.outcome() == v1::Decision::PLACED) {
      ++placed;
      ASSERT_EQ(cluster_.StateOf(name), "Running") << i << status.dump(1);
      EXPECT_EQ(decision.effective().pods(), status["effective"]["pods"]) << i;
      ASSERT_EQ(static_cast<size_t>(decision.placement().runs_size()),
                status["placement"]["runs"].size());
      for (int run = 0; run < decision.placement().runs_size(); ++run) {
        EXPECT_EQ(decision.placement().runs(run).nodes(),
                  status["placement"]["runs"][static_cast<size_t>(run)]["nodes"])
            << i;
      }
    } else {
      EXPECT_EQ(decision.reason(), status["waiting"]["reason"]) << i;
      EXPECT_EQ(decision.message(), status["waiting"]["message"]) << i;
      cluster_.DeleteJob(name);
    }
    if (rng.Chance(0.6)) {
      const std::string ended = "job" + std::to_string(rng.Below(static_cast<uint64_t>(i) + 1));
      if (!cluster_.Job(ended).is_null()) {
        cluster_.DeleteJob(ended);
      }
    }
    cluster_.Run(absl::Seconds(5));
  }
  EXPECT_GT(placed, 3);
}

TEST_F(PlacementServiceTest, WhatCannotBePlannedIsNotPlaced) {
  nlohmann::json spec = ModelSpec({{"maxSpareGpus", 16}});
  const v1::Decision spares = Place(72, spec);
  ASSERT_EQ(spares.outcome(), v1::Decision::PLACED) << spares.message();
  EXPECT_EQ(spares.effective().pods(), 8) << "the plan leaves one pod to others";
  spec["model"]["preset"] = "llama-3-70b";
  const v1::Decision small = Place(8, spec);
  EXPECT_EQ(small.outcome(), v1::Decision::NEVER);
  EXPECT_EQ(small.reason(), "PlanFailed");
  EXPECT_THAT(small.message(), HasSubstr("GPUs or more"));

  spec["model"].erase("preset");
  spec["model"]["huggingFaceConfigMap"] = {{"name", "llama-config"}};
  const v1::Decision unread = Place(64, spec);
  EXPECT_EQ(unread.outcome(), v1::Decision::NOT_NOW);
  EXPECT_EQ(unread.reason(), "PlanFailed");
  EXPECT_THAT(unread.message(), HasSubstr("\"llama-config\" cannot be read"));
  const nlohmann::json config = {{"model_type", "llama"},    {"num_hidden_layers", 32},
                                 {"hidden_size", 4096},      {"num_attention_heads", 32},
                                 {"num_key_value_heads", 8}, {"intermediate_size", 14336},
                                 {"vocab_size", 128256},     {"tie_word_embeddings", false}};
  nlohmann::json map = {{"apiVersion", "v1"}, {"kind", "ConfigMap"}};
  map["metadata"] = {{"name", "llama-config"}, {"namespace", "research"}};
  map["data"]["config.json"] = config.dump();
  cluster_.server().Put(kube::kConfigMaps, map);
  EXPECT_EQ(Place(64, spec).outcome(), v1::Decision::PLACED);
  spec["model"]["huggingFaceConfigMap"]["name"] = "../secrets/key";
  EXPECT_THAT(Place(64, spec).message(), HasSubstr("no object has such a name"));
  // Advice does not change where a job goes.
  spec["plan"]["mode"] = "Advise";
  EXPECT_EQ(Place(64, spec).outcome(), v1::Decision::PLACED);
}

TEST_F(PlacementServiceTest, SaysWhyNotNowAndWhyNever) {
  Start("hog", 8 * 14);
  const v1::Decision later = Place(64);
  EXPECT_EQ(later.outcome(), v1::Decision::NOT_NOW);
  EXPECT_EQ(later.reason(), "NoCapacity");
  EXPECT_THAT(later.message(), Not(IsEmpty()));
  EXPECT_THAT(later.nearest_change(), HasSubstr("16 GPUs"));
  EXPECT_FALSE(later.has_placement());

  const v1::Decision never = Place(8 * 17);
  EXPECT_EQ(never.outcome(), v1::Decision::NEVER);
  EXPECT_EQ(never.reason(), "NeverFits");

  const v1::Decision spec = Place(64, {{"gpusPerPod", 16}});
  EXPECT_EQ(spec.outcome(), v1::Decision::NEVER);
  EXPECT_EQ(spec.reason(), "InvalidSpec");
  EXPECT_THAT(spec.message(), HasSubstr("gpusPerPod"));

  EXPECT_EQ(Place(64, {{"queue", "none"}}).reason(), "NotAllowed");
}

TEST_F(PlacementServiceTest, QuotaHoldsForADryRunToo) {
  cluster_.server().Merge(
      operators::kQueues, {"", "default"},
      {{"spec", {{"quotas", nlohmann::json::array({{{"product", "*"}, {"limit", 32}}})}}}});
  cluster_.Run(absl::Seconds(1));
  Start("hog", 24);
  const v1::Decision decision = Place(16);
  EXPECT_EQ(decision.outcome(), v1::Decision::NOT_NOW);
  EXPECT_EQ(decision.reason(), "QuotaExceeded");
  v1::Change ended;
  ended.mutable_remove_job()->set_namespace_("research");
  ended.mutable_remove_job()->set_name("hog");
  EXPECT_EQ(WhatIf(16, {ended}).outcome(), v1::Decision::PLACED) << "its quota is given back too";
}

TEST_F(PlacementServiceTest, AnUnreadableJobIsRefusedByItsField) {
  const struct {
    std::string json;
    std::string says;
  } cases[] = {
      {"", "training_job_json: is missing"},
      {"{", "training_job_json: "},
      {R"({"kind":"TrainingJob","metadata":{"name":"x"},"spec":{"gpus":8}})", "metadata.namespace"},
      {R"({"kind":"TrainingJob","metadata":{"namespace":"x"},"spec":{"gpus":8}})", "metadata.name"},
      {R"({"kind":"TrainingJob","metadata":{"namespace":"a\nb","name":"x"},"spec":{"gpus":8}})",
       "metadata.namespace"},
      {JobJson(8, {{"gpus", "eight"}}), "spec.gpus"},
      {R"({"kind":"Pod","metadata":{"namespace":"x","name":"x"},"spec":{}})",
       "kind: \"Pod\" is not TrainingJob"},
      {R"({"metadata":{"namespace":"x","name":"x"},"spec":{"gpus":8}})", "kind: is missing"},
      {"kind: TrainingJob", "is no JSON at byte 1: send a TrainingJob as JSON"},
      {"[]", "is not a JSON object"},
      {R"({"kind":"TrainingJob","metadata":{"namespace":"x","name":")" + std::string(300, 'a') +
           R"("},"spec":{"gpus":8}})",
       "metadata.name: has 300 characters: a name has at most 253"},
      {std::string(100'000, '['), "training_job_json: "},
  };
  for (const auto& bad : cases) {
    const grpc::Status status = AskPlace(bad.json);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << bad.says;
    EXPECT_THAT(status.error_message(), HasSubstr(bad.says));
  }
}

TEST_F(PlacementServiceTest, AStatusDoesNotCount) {
  nlohmann::json job = nlohmann::json::parse(JobJson(8));
  job["status"] = {{"placement", "nonsense"}};
  EXPECT_TRUE(AskPlace(job.dump()).ok());
  job["status"] = {{"state", "Succeeded"}};
  EXPECT_TRUE(AskPlace(job.dump()).ok());
}

TEST_F(PlacementServiceTest, WhatIfChangesAPrivateCopy) {
  Start("hog", 8 * 16);
  v1::Change more;
  more.mutable_add_nodes()->set_count(2);
  const v1::Decision grown = WhatIf(16, {more});
  ASSERT_EQ(grown.outcome(), v1::Decision::PLACED) << last_status().error_message();
  EXPECT_EQ(grown.placement().runs(0).nodes(), "added-[0001-0002]");

  v1::Change ended;
  ended.mutable_remove_job()->set_namespace_("research");
  ended.mutable_remove_job()->set_name("hog");
  EXPECT_EQ(WhatIf(16, {ended}).outcome(), v1::Decision::PLACED);
  EXPECT_EQ(WhatIf(16, {ended, NodeChange(&v1::Change::mutable_cordon_nodes, "node-[000-015]")})
                .outcome(),
            v1::Decision::NOT_NOW);
  EXPECT_EQ(WhatIf(16, {ended, NodeChange(&v1::Change::mutable_remove_nodes, "node-[000-014]")})
                .outcome(),
            v1::Decision::NEVER);
  v1::Change smaller;
  smaller.set_gpus(8);
  EXPECT_EQ(
      WhatIf(16, {ended, NodeChange(&v1::Change::mutable_remove_nodes, "node-[000-014]"), smaller})
          .outcome(),
      v1::Decision::PLACED);

  cluster_.SetUnschedulable("node-003", true);
  cluster_.Run(absl::Seconds(1));
  EXPECT_EQ(WhatIf(8 * 16, {ended}).outcome(), v1::Decision::NOT_NOW);
  EXPECT_EQ(WhatIf(8 * 16, {ended, NodeChange(&v1::Change::mutable_uncordon_nodes, "node-003")})
                .outcome(),
            v1::Decision::PLACED);
  EXPECT_EQ(Place(8).outcome(), v1::Decision::NOT_NOW) << "the ledger never heard of it";
  EXPECT_EQ(cluster_.StateOf("hog"), "Running");
}

TEST_F(PlacementServiceTest, AChangeThatMakesNoSenseIsRefused) {
  const auto says = [&](const std::vector<v1::Change>& changes) {
    WhatIf(8, changes);
    EXPECT_EQ(last_status().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return last_status().error_message();
  };
  EXPECT_THAT(says({v1::Change()}), HasSubstr("changes[0]: is missing: give one of add_nodes"));
  EXPECT_THAT(says({NodeChange(&v1::Change::mutable_remove_nodes, "node-[")}),
              HasSubstr("changes[0].remove_nodes.nodes: "));
  EXPECT_THAT(says({NodeChange(&v1::Change::mutable_cordon_nodes, "node-[0-99999]")}),
              HasSubstr("changes[0].cordon_nodes.nodes: "));
  EXPECT_THAT(says({NodeChange(&v1::Change::mutable_remove_nodes, "node-999")}),
              HasSubstr("changes[0].remove_nodes: \"node-999\" is no GPU node"));
  v1::Change add;
  add.mutable_add_nodes()->set_count(1);
  v1::Change none = add;
  none.mutable_add_nodes()->set_count(0);
  EXPECT_THAT(says({add, none}),
              HasSubstr("changes[1].add_nodes.count: 0 is not from 1 to 4096: say how many"));
  add.mutable_add_nodes()->set_like_node("node-999");
  EXPECT_THAT(says({NodeChange(&v1::Change::mutable_cordon_nodes, "node-001"), add}),
              HasSubstr("changes[1].add_nodes.like_node: \"node-999\" is no GPU node"));
  v1::Change job;
  job.mutable_remove_job()->set_name("x");
  EXPECT_THAT(says({job}), HasSubstr("changes[0].remove_job"));
  job.mutable_remove_job()->set_namespace_("research");
  EXPECT_THAT(says({job}), HasSubstr("changes[0].remove_job: there is no TrainingJob research/x"));
  EXPECT_THAT(says(std::vector<v1::Change>(33, job)), HasSubstr("changes: 33 are too many"));
  v1::Change gpus;
  gpus.set_gpus(-5);
  EXPECT_THAT(says({gpus}), HasSubstr("changes[0].gpus: -5 is not from 1 to "));
}

TEST_F(PlacementServiceTest, ExplainsAJobThatRunsAndOneThatWaits) {
  Start("llama", 8 * 15);
  v1::ExplainResponse running;
  ASSERT_TRUE(Explain("llama", running).ok());
  EXPECT_EQ(running.state(), "Running");
  EXPECT_FALSE(running.has_waiting());
  EXPECT_EQ(running.placement().epoch(), 1);
  EXPECT_EQ(running.pods().running(), 15);
  EXPECT_TRUE(running.timings().has_queued_milliseconds());

  cluster_.CreateJob("first", 16);
  cluster_.CreateJob("second", 16);
  cluster_.Run(absl::Seconds(3));
  v1::ExplainResponse waiting;
  ASSERT_TRUE(Explain("second", waiting).ok());
  EXPECT_FALSE(waiting.has_placement());
  EXPECT_EQ(waiting.waiting().reason(), "NoCapacity");
  EXPECT_EQ(waiting.waiting().queue_position(), 2);
  EXPECT_EQ(waiting.effective().pods(), 2);

  v1::ExplainResponse none;
  EXPECT_EQ(Explain("nothing", none).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Explain("", none).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(PlacementServiceTest, TheLedgerAddsUp) {
  Start("llama", 8 * 5);
  cluster_.SetUnschedulable("node-015", true);
  cluster_.Run(absl::Seconds(1));
  v1::GetLedgerResponse ledger;
  ASSERT_TRUE(GetLedger({}, ledger).ok());
  EXPECT_THAT(ledger.levels(), ElementsAre("node", "supernode", "cluster"));
  EXPECT_EQ(ledger.domains_size(), 16 + 4 + 1);
  EXPECT_EQ(ledger.gpus().total(), 128);
  EXPECT_EQ(ledger.gpus().held(), 40);
  EXPECT_EQ(ledger.gpus().faulty(), 8);
  EXPECT_EQ(ledger.gpus().free(), 80);
  ASSERT_EQ(ledger.gangs_size(), 1);
  EXPECT_EQ(ledger.gangs(0).job().namespace_(), "research");
  EXPECT_EQ(ledger.gangs(0).job().name(), "llama");
  EXPECT_EQ(ledger.gangs(0).gpus(), 40);
  EXPECT_EQ(operators::ParseNodeRanges(ledger.gangs(0).nodes(), 100)->size(), 5u);

  v1::GetLedgerRequest request;
  request.add_levels("supernode");
  request.set_without_gangs(true);
  v1::GetLedgerResponse part;
  ASSERT_TRUE(GetLedger(request, part).ok());
  EXPECT_EQ(part.domains_size(), 4);
  EXPECT_THAT(part.gangs(), IsEmpty());
  EXPECT_EQ(part.gang_count(), 1);
  request.add_levels("rack");
  EXPECT_THAT(GetLedger(request, part).error_message(),
              HasSubstr("levels[1]: \"rack\" is not a level of this cluster (node, supernode"));
}

TEST_F(PlacementServiceTest, NamesOfOtherTenantsStayHidden) {
  StartElsewhere("stealth", 16);
  Start("llama", 16);
  v1::GetLedgerResponse ledger;
  ASSERT_TRUE(GetLedger({}, ledger).ok());
  EXPECT_EQ(ledger.gang_count(), 2);
  ASSERT_EQ(ledger.gangs_size(), 1);
  EXPECT_EQ(ledger.gangs(0).job().name(), "llama");
  EXPECT_THAT(ledger.DebugString(), Not(HasSubstr("stealth")));
  v1::GetLedgerResponse all;
  ASSERT_TRUE(GetLedger({}, all, kRoot).ok());
  EXPECT_THAT(all.DebugString(), AllOf(HasSubstr("stealth"), HasSubstr("llama")));

  v1::ExplainResponse response;
  EXPECT_EQ(Explain("stealth", response, kAda, "secret").error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Explain("nothing", response, kAda, "secret").error_code(),
            grpc::StatusCode::PERMISSION_DENIED)
      << "whether it exists is not told either";
  EXPECT_EQ(AskPlace(JobJson(8, {}, "secret")).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  v1::Change ended;
  ended.mutable_remove_job()->set_namespace_("secret");
  ended.mutable_remove_job()->set_name("stealth");
  WhatIf(8, {ended});
  EXPECT_EQ(last_status().error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(PlacementServiceTest, WithoutRightsThereIsNoAnswer) {
  const grpc::Status place = AskPlace(JobJson(8), kBob);
  EXPECT_EQ(place.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(place.error_message(),
              HasSubstr("\"bob\" may not create trainingjobs.asterism.dev in namespace "
                        "\"research\""));
  v1::GetLedgerResponse ledger;
  EXPECT_EQ(GetLedger({}, ledger, kBob).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  v1::ExplainResponse response;
  EXPECT_EQ(Explain("x", response, kBob).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  for (const char* token : {"", "unknown"}) {
    EXPECT_EQ(AskPlace(JobJson(8), token).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  }
  EXPECT_THAT(last_status().error_message(), Not(HasSubstr("unknown")));
}

TEST_F(PlacementServiceTest, AReviewThatFailsIsNoYes) {
  for (const char* plural : {"tokenreviews", "subjectaccessreviews"}) {
    cluster_.server().InjectFault({.verb = "create", .plural = plural, .http_code = 403});
    EXPECT_EQ(AskPlace(JobJson(8)).error_code(), grpc::StatusCode::UNAVAILABLE) << plural;
    EXPECT_EQ(AskPlace(JobJson(8)).error_code(), grpc::StatusCode::OK) << plural;
    cluster_.Run(absl::Seconds(11));
  }
}

TEST_F(PlacementServiceTest, ManyCallsAreOneReview) {
  for (int i = 0; i < 10; ++i) {
    Place(8);
  }
  EXPECT_EQ(reviews_.token_reviews(), 1);
  EXPECT_EQ(reviews_.access_reviews(), 1);
  EXPECT_THAT(cluster_.registry("a").Expose(),
              HasSubstr("asterism_grpc_calls_total{method=\"Place\",code=\"OK\"} 10"));
}

TEST_F(PlacementServiceTest, WatchesTheQueue) {
  Start("hog", 8 * 15);
  cluster_.CreateJob("first", 16);
  cluster_.Run(absl::Seconds(1));
  const auto reader = Watch(kAda);
  ASSERT_TRUE(Eventually([&] { return reader->jobs().size() == 1; }));
  EXPECT_TRUE(reader->messages()[0].snapshot());
  EXPECT_EQ(reader->messages()[0].jobs(0).position(), 1);
  EXPECT_EQ(reader->messages()[0].jobs(0).reason(), "NoCapacity");
  EXPECT_EQ(reader->messages()[0].waiting_gpus(), 16);
  cluster_.CreateJob("second", 32);
  ASSERT_TRUE(Eventually([&] { return reader->jobs().size() == 2; }));
  EXPECT_FALSE(reader->messages().back().snapshot());
  cluster_.DeleteJob("first");
  ASSERT_TRUE(Eventually([&] { return reader->jobs().size() == 1; }));
  EXPECT_TRUE(reader->jobs().contains("research/second"));
  cluster_.DeleteJob("hog");
  EXPECT_TRUE(Eventually([&] { return reader->jobs().empty(); })) << "it runs";
  reader->Cancel();
  EXPECT_TRUE(Eventually([&] { return reader->done(); }));
}

TEST_F(PlacementServiceTest, AWatchShowsNoJobsOfOthers) {
  Start("hog", 8 * 16);
  StartElsewhere("stealth", 8);
  cluster_.CreateJob("mine", 8);
  const auto ada = Watch(kAda);
  const auto bob = Watch(kBob);
  const auto root = Watch(kRoot);
  ASSERT_TRUE(Eventually([&] { return root->jobs().size() == 2 && ada->jobs().size() == 1; }));
  EXPECT_TRUE(ada->jobs().contains("research/mine"));
  EXPECT_EQ(ada->messages().back().waiting_jobs(), 2) << "the other one counts";
  ASSERT_TRUE(Eventually([&] { return !bob->messages().empty(); }));
  EXPECT_TRUE(bob->jobs().empty());
  v1::WatchQueueRequest secret;
  secret.set_namespace_("secret");
  const auto refused = Watch(kAda, secret);
  ASSERT_TRUE(Eventually([&] { return refused->done(); }));
  EXPECT_EQ(refused->status().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  for (const auto& reader : {ada.get(), bob.get(), root.get()}) {
    reader->Cancel();
    EXPECT_TRUE(Eventually([&] { return reader->done(); }));
  }
}

TEST_F(PlacementServiceTest, AStreamDoesNotOutliveItsTokenOrItsRight) {
  cluster_.CreateJob("mine", 8 * 17);
  cluster_.Run(absl::Seconds(1));
  v1::WatchQueueRequest mine;
  mine.set_namespace_("research");
  const auto by_token = Watch(kRoot);
  const auto by_right = Watch(kAda, mine);
  const auto narrowed = Watch(kAda);
  ASSERT_TRUE(Eventually([&] {
    return by_token->jobs().size() == 1 && by_right->jobs().size() == 1 &&
           narrowed->jobs().size() == 1;
  }));
  reviews_.RemoveToken(kRoot);
  reviews_.Forbid("ada", "list trainingjobs research");
  ASSERT_TRUE(Eventually([&] { return by_token->done() && by_right->done(); }));
  EXPECT_EQ(by_token->status().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(by_right->status().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(Eventually([&] { return narrowed->jobs().empty(); })) << "it sees no row any more";
  narrowed->Cancel();
  EXPECT_TRUE(Eventually([&] { return narrowed->done(); }));
}

}  // namespace
}  // namespace asterism::controller
