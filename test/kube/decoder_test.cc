#include "kube/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "k8s/core.pb.h"
#include "kube/node.h"
#include "nlohmann/json.hpp"
#include "test/source_tree.h"

namespace asterism::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Both encodings of the same object.
struct Pair {
  Reply json;
  Reply protobuf;
};

Pair ReadPair(const std::string& stem) {
  Pair pair;
  pair.json = {200, "application/json", ReadFile(stem + ".json")};
  pair.protobuf = {200, "application/vnd.kubernetes.protobuf", ReadFile(stem + ".pb")};
  return pair;
}

void ExpectEqual(const ObjectMeta& a, const ObjectMeta& b) {
  EXPECT_EQ(a.Key(), b.Key());
  EXPECT_EQ(a.uid, b.uid);
  EXPECT_EQ(a.resource_version, b.resource_version);
  EXPECT_EQ(a.generation, b.generation);
  EXPECT_EQ(a.creation_time, b.creation_time);
  EXPECT_EQ(a.deletion_time, b.deletion_time);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.annotations, b.annotations);
  ASSERT_EQ(a.owners.size(), b.owners.size());
  for (size_t i = 0; i < a.owners.size(); ++i) {
    EXPECT_EQ(a.owners[i].uid, b.owners[i].uid);
    EXPECT_EQ(a.owners[i].kind, b.owners[i].kind);
    EXPECT_EQ(a.owners[i].name, b.owners[i].name);
    EXPECT_EQ(a.owners[i].api_version, b.owners[i].api_version);
    EXPECT_EQ(a.owners[i].controller, b.owners[i].controller);
  }
}

template <typename T>
std::pair<T, T> DecodeBoth(const std::string& stem, absl::StatusOr<T> (*decode)(const RawObject&)) {
  const Pair pair = ReadPair(stem);
  EXPECT_FALSE(pair.json.body.empty()) << stem;
  const absl::StatusOr<RawObject> json = ObjectOf(pair.json);
  const absl::StatusOr<RawObject> protobuf = ObjectOf(pair.protobuf);
  EXPECT_TRUE(json.ok() && protobuf.ok()) << stem << json.status() << protobuf.status();
  absl::StatusOr<T> from_json = decode(*json);
  absl::StatusOr<T> from_protobuf = decode(*protobuf);
  EXPECT_TRUE(from_json.ok()) << stem << from_json.status();
  EXPECT_TRUE(from_protobuf.ok()) << stem << from_protobuf.status();
  if (!from_json.ok() || !from_protobuf.ok()) {
    return {};
  }
  ExpectEqual(from_json->meta, from_protobuf->meta);
  return {*std::move(from_json), *std::move(from_protobuf)};
}

void ExpectSamePod(const std::string& stem) {
  SCOPED_TRACE(stem);
  const auto [a, b] = DecodeBoth(stem, DecodePod);
  EXPECT_EQ(a.node_name, b.node_name);
  EXPECT_EQ(a.pinned_node_name, b.pinned_node_name);
  EXPECT_EQ(a.scheduler_name, b.scheduler_name);
  EXPECT_EQ(a.priority_class_name, b.priority_class_name);
  EXPECT_EQ(a.priority, b.priority);
  EXPECT_EQ(a.gated, b.gated);
  EXPECT_EQ(a.requests, b.requests);
  EXPECT_EQ(a.phase, b.phase);
  EXPECT_EQ(a.reason, b.reason);
  EXPECT_EQ(a.message, b.message);
  EXPECT_EQ(a.conditions, b.conditions);
  ASSERT_EQ(a.terminated.size(), b.terminated.size());
  for (size_t i = 0; i < a.terminated.size(); ++i) {
    EXPECT_EQ(a.terminated[i].name, b.terminated[i].name);
    EXPECT_EQ(a.terminated[i].exit_code, b.terminated[i].exit_code);
    EXPECT_EQ(a.terminated[i].signal, b.terminated[i].signal);
    EXPECT_EQ(a.terminated[i].reason, b.terminated[i].reason);
    EXPECT_EQ(a.terminated[i].finished_at, b.terminated[i].finished_at);
  }
}

void ExpectSameNode(const std::string& stem) {
  SCOPED_TRACE(stem);
  const auto [a, b] = DecodeBoth(stem, DecodeNode);
  EXPECT_EQ(a.unschedulable, b.unschedulable);
  EXPECT_EQ(a.taints, b.taints);
  EXPECT_EQ(a.capacity, b.capacity);
  EXPECT_EQ(a.allocatable, b.allocatable);
  EXPECT_EQ(a.conditions, b.conditions);
}

void ExpectSameSmallKinds(const std::string& lease, const std::string& priority_class,
                          const std::string& namespace_stem) {
  const auto [a, b] = DecodeBoth(lease, DecodeLease);
  EXPECT_EQ(a.holder, b.holder);
  EXPECT_EQ(a.duration_seconds, b.duration_seconds);
  EXPECT_EQ(a.transitions, b.transitions);
  EXPECT_EQ(a.acquire_time, b.acquire_time);
  EXPECT_EQ(a.renew_time, b.renew_time);
  const auto [c, d] = DecodeBoth(priority_class, DecodePriorityClass);
  EXPECT_EQ(c.value, d.value);
  EXPECT_EQ(c.global_default, d.global_default);
  DecodeBoth(namespace_stem, DecodeNamespace);
}

// Recorded from a real API server 1.37.2.
TEST(Decoder, BothEncodingsOfARecordedObjectAreTheSame) {
  const std::string folder = asterism::test_paths::SourceTree() + "/test/golden/kube/";
  ExpectSamePod(folder + "pod");
  ExpectSameNode(folder + "node");
  ExpectSameSmallKinds(folder + "lease", folder + "priorityclass", folder + "namespace");
}

TEST(Decoder, ReadsTheRecordedPod) {
  const auto [pod, same] =
      DecodeBoth(asterism::test_paths::SourceTree() + "/test/golden/kube/pod", DecodePod);
  EXPECT_EQ(pod.meta.Key(), "kube-golden/pinned");
  EXPECT_EQ(pod.meta.Label("app"), "") << "of a pod only our own labels are kept";
  EXPECT_EQ(pod.meta.Annotation("example.dev/ranks"), "");
  const Pair recorded = ReadPair(asterism::test_paths::SourceTree() + "/test/golden/kube/pod");
  for (const Reply* reply : {&recorded.json, &recorded.protobuf}) {
    const absl::StatusOr<ObjectMeta> meta = DecodeMeta(ObjectOf(*reply).value());
    ASSERT_TRUE(meta.ok()) << meta.status();
    EXPECT_EQ(meta->Label("app"), "golden");
    EXPECT_EQ(meta->Annotation("example.dev/ranks"), "0-7");
  }
  ASSERT_NE(pod.meta.Controller(), nullptr);
  EXPECT_EQ(pod.meta.Controller()->kind, "ConfigMap");
  EXPECT_EQ(pod.pinned_node_name, "golden-node");
  EXPECT_EQ(pod.scheduler_name, "nobody");
  EXPECT_TRUE(pod.gated);
  EXPECT_EQ(pod.priority_class_name, "golden");
  EXPECT_EQ(pod.priority, 1234);
  // main 1500m / 2Gi / 8 GPUs + sidecar 250m / 64Mi; the init container's 3 cores (+ sidecar) win.
  EXPECT_THAT(pod.requests,
              ElementsAre(ResourceAmount{"cpu", 3250},
                          ResourceAmount{"memory", (int64_t{2} << 30) + (int64_t{64} << 20)},
                          ResourceAmount{"nvidia.com/gpu", 8}));
  EXPECT_EQ(pod.phase, "Failed");
  ASSERT_EQ(pod.terminated.size(), 1u);
  EXPECT_EQ(pod.terminated[0].exit_code, 137);
  EXPECT_EQ(pod.terminated[0].reason, "OOMKilled");
  EXPECT_TRUE(pod.Terminal());
}

// The module cache of Go holds the official vectors of k8s.io/api, in which every field is set.
TEST(Decoder, BothEncodingsOfTheOfficialVectorsAreTheSame) {
  const char* root = std::getenv("GOMODCACHE");
  const char* home = std::getenv("HOME");
  const std::string cache = root != nullptr ? root : fmt::format("{}/go/pkg/mod", home);
  const std::string folder = cache + "/k8s.io/api@v0.37.2/testdata/";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << "SKIPPED: no module k8s.io/api@v0.37.2 in " << cache;
  }
  for (const std::string version : {"HEAD", "v1.33.0", "v1.34.0", "v1.35.0", "v1.36.0"}) {
    const std::string at = folder + version + "/";
    ExpectSamePod(at + "core.v1.Pod");
    ExpectSameNode(at + "core.v1.Node");
    ExpectSameSmallKinds(at + "coordination.k8s.io.v1.Lease",
                         at + "scheduling.k8s.io.v1.PriorityClass", at + "core.v1.Namespace");
  }
}

Pod PodOf(const std::string& spec) {
  const std::string text = fmt::format(R"({{"metadata":{{"name":"p"}},"spec":{}}})", spec);
  absl::StatusOr<Pod> pod = DecodePod({Encoding::kJson, text});
  EXPECT_TRUE(pod.ok()) << pod.status();
  return *std::move(pod);
}

std::string Affinity(const std::string& terms) {
  return fmt::format(R"({{"affinity":{{"nodeAffinity":{{)"
                     R"("requiredDuringSchedulingIgnoredDuringExecution":)"
                     R"({{"nodeSelectorTerms":[{}]}}}}}}}})",
                     terms);
}

std::string PinTerm(const std::string& values) {
  return fmt::format(
      R"({{"matchFields":[{{"key":"metadata.name","operator":"In","values":[{}]}}]}})", values);
}

TEST(Decoder, APinIsOneNameInEveryTerm) {
  EXPECT_EQ(PodOf(Affinity(PinTerm(R"("n1")"))).pinned_node_name, "n1");
  EXPECT_EQ(PodOf(Affinity(PinTerm(R"("n1")") + "," + PinTerm(R"("n1")"))).pinned_node_name, "n1");
  EXPECT_EQ(PodOf(Affinity(PinTerm(R"("n1")") + "," + PinTerm(R"("n2")"))).pinned_node_name, "");
  EXPECT_EQ(PodOf(Affinity(PinTerm(R"("n1","n2")"))).pinned_node_name, "");
  EXPECT_EQ(PodOf(Affinity(PinTerm(R"("n1")") + R"(,{"matchExpressions":[]})")).pinned_node_name,
            "");
  EXPECT_EQ(PodOf(Affinity("")).pinned_node_name, "");
  EXPECT_EQ(PodOf("{}").pinned_node_name, "");
}

TEST(Decoder, RequestsFollowTheSchedulersRule) {
  const auto container = [](const std::string& requests, const std::string& more = "") {
    return fmt::format(R"({{"name":"c","resources":{{"requests":{}}}{}}})", requests, more);
  };
  // Sum of containers against the largest init container.
  EXPECT_THAT(PodOf(fmt::format(R"({{"containers":[{},{}],"initContainers":[{}]}})",
                                container(R"({"cpu":"1"})"), container(R"({"cpu":"2"})"),
                                container(R"({"cpu":"2500m","memory":"1Ki"})")))
                  .requests,
              ElementsAre(ResourceAmount{"cpu", 3000}, ResourceAmount{"memory", 1024}));
  // A sidecar adds to the containers, and to the init containers behind it.
  const std::string sidecar = container(R"({"cpu":"1"})", R"(,"restartPolicy":"Always")");
  EXPECT_THAT(PodOf(fmt::format(R"({{"containers":[{}],"initContainers":[{},{}]}})",
                                container(R"({"cpu":"1"})"), sidecar, container(R"({"cpu":"4"})")))
                  .requests,
              ElementsAre(ResourceAmount{"cpu", 5000}));
  EXPECT_THAT(PodOf(fmt::format(R"({{"containers":[{}],"initContainers":[{},{}]}})",
                                container(R"({"cpu":"1"})"), container(R"({"cpu":"4"})"), sidecar))
                  .requests,
              ElementsAre(ResourceAmount{"cpu", 4000}));
  // Overhead comes on top, pod-level requests replace, limits stand in for missing requests.
  EXPECT_THAT(PodOf(fmt::format(R"({{"containers":[{}],"overhead":{{"cpu":"100m"}},)"
                                R"("resources":{{"requests":{{"cpu":"7","x.dev/gpu":"3"}}}}}})",
                                container(R"({"cpu":"1"})")))
                  .requests,
              ElementsAre(ResourceAmount{"cpu", 7100}));
  EXPECT_THAT(PodOf(R"({"containers":[{"resources":{"limits":{"x.dev/gpu":"8","cpu":"2"},)"
                    R"("requests":{"cpu":"1"}}}]})")
                  .requests,
              ElementsAre(ResourceAmount{"cpu", 1000}, ResourceAmount{"x.dev/gpu", 8}));
}

TEST(Decoder, AWrongTypeIsNamed) {
  for (const auto& [text, field] : std::vector<std::pair<std::string, std::string>>{
           {R"({"metadata":{"name":5}})", "field name is not a string"},
           {R"({"metadata":[]})", "field metadata is not an object"},
           {R"({"metadata":{"creationTimestamp":"yesterday"}})", "creationTimestamp"},
           {R"({"spec":{"priority":"high"}})", "field priority is not an integer"},
           {R"({"spec":{"containers":{}}})", "field containers is not a list"},
           {R"({"spec":{"containers":[{"resources":{"requests":{"cpu":"lots"}}}]}})",
            "field cpu is not a quantity"},
           {"[]", "not an object"},
           {R"({"metadata":)", "not valid JSON"},
           {"", "not valid JSON"}}) {
    const absl::StatusOr<Pod> pod = DecodePod({Encoding::kJson, text});
    ASSERT_FALSE(pod.ok()) << text;
    EXPECT_THAT(std::string(pod.status().message()), HasSubstr(field)) << text;
  }
}

// What the API server keeps must be readable, or one tenant's object would end everybody's watch:
// it takes 10,000 levels.
TEST(Decoder, ReadsWhatIsNestedAsDeepAsTheApiServerTakes) {
  const auto decode = [](size_t depth) {
    const std::string deep = std::string(depth, '[') + "1" + std::string(depth, ']');
    const std::string text = R"({"metadata":{"name":"a"},"spec":{"unknown":)" + deep + "}}";
    const RawObject object{Encoding::kJson, text};
    return DecodeMeta(object).ok() && DecodePod(object).ok();
  };
  EXPECT_TRUE(decode(120));
  EXPECT_TRUE(decode(10'000));
  EXPECT_FALSE(decode(20'000));
}

// Bytes of all strings that depend on what users write.
size_t BytesOf(const ObjectMeta& meta, const std::vector<Condition>& conditions) {
  size_t bytes = 0;
  for (const StringPairs* pairs : {&meta.labels, &meta.annotations}) {
    for (const auto& [key, value] : *pairs) {
      bytes += sizeof(std::string) * 2 + key.size() + value.size();
    }
  }
  for (const Condition& condition : conditions) {
    bytes += sizeof(Condition) + condition.message.size();
  }
  return bytes;
}

// A few thousand pods with the largest annotations that the API server takes must not matter.
TEST(Decoder, WhatUsersHangOnAPodIsBounded) {
  const std::string many_bytes(250'000, 'x');
  k8s::io::api::core::v1::Pod message;
  auto& labels = *message.mutable_metadata()->mutable_labels();
  auto& annotations = *message.mutable_metadata()->mutable_annotations();
  nlohmann::json object = {{"metadata", {{"name", "p"}}}};
  const auto put = [&](auto& pairs, const char* member, const std::string& key,
                       const std::string& value) {
    pairs[key] = value;
    object["metadata"][member][key] = value;
  };
  put(labels, "labels", "asterism.dev/job-uid", "uid-1");
  put(annotations, "annotations", "asterism.dev/ranks", "64-71");
  put(annotations, "annotations", "example.com/large", many_bytes);
  // Ours by its name, and written by somebody else.
  put(annotations, "annotations", "asterism.dev/large", many_bytes);
  for (int i = 0; i < 2000; ++i) {
    put(labels, "labels", fmt::format("example.com/{}", i), "x");
    put(annotations, "annotations", fmt::format("asterism.dev/z{}", i), "x");
  }
  const std::string euros = std::string(1020, 'x') + "\u20ac\u20ac\u20ac";
  for (std::string* text : {message.mutable_status()->mutable_message(),
                            message.mutable_status()->add_conditions()->mutable_message(),
                            message.mutable_status()
                                ->add_containerstatuses()
                                ->mutable_state()
                                ->mutable_terminated()
                                ->mutable_message()}) {
    *text = euros;
  }
  object["status"] = {{"message", euros},
                      {"conditions", {{{"message", euros}}}},
                      {"containerStatuses", {{{"state", {{"terminated", {{"message", euros}}}}}}}}};

  const std::string bytes = message.SerializeAsString();
  const std::string text = object.dump();
  for (const auto& pod :
       {DecodePod({Encoding::kProtobuf, bytes}), DecodePod({Encoding::kJson, text})}) {
    ASSERT_TRUE(pod.ok()) << pod.status();
    EXPECT_EQ(pod->meta.Label("asterism.dev/job-uid"), "uid-1");
    EXPECT_EQ(pod->meta.Annotation("asterism.dev/ranks"), "64-71");
    EXPECT_EQ(pod->meta.labels.size(), 1u);
    EXPECT_EQ(pod->meta.annotations.size(), 32u);
    const std::string cut = std::string(1020, 'x') + "...";
    EXPECT_EQ(pod->message, cut);
    EXPECT_EQ(pod->conditions.at(0).message, cut);
    EXPECT_EQ(pod->terminated.at(0).message, cut);
    EXPECT_LT(BytesOf(pod->meta, pod->conditions), 5000u);
  }
}

TEST(Decoder, LabelsOfANodeAreKeptAndItsAnnotationsBounded) {
  const std::string text =
      fmt::format(R"({{"metadata":{{"name":"n","labels":{{"example.com/rack":"r1"}},)"
                  R"("annotations":{{"example.com/large":"{}","asterism.dev/note":"x"}}}}}})",
                  std::string(100'000, 'x'));
  const absl::StatusOr<Node> node = DecodeNode({Encoding::kJson, text});
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ(node->meta.Label("example.com/rack"), "r1");
  EXPECT_EQ(node->meta.annotations.size(), 1u);
}

TEST(Decoder, BrokenProtobufIsAnError) {
  const std::string whole =
      ReadFile(asterism::test_paths::SourceTree() + "/test/golden/kube/pod.pb");
  for (size_t size = 0; size < whole.size(); size += 7) {
    const Reply reply{200, "application/vnd.kubernetes.protobuf", whole.substr(0, size)};
    const absl::StatusOr<RawObject> object = ObjectOf(reply);
    if (object.ok()) {
      DecodePod(*object).status().IgnoreError();
    }
  }
  EXPECT_FALSE(ObjectOf({200, "application/vnd.kubernetes.protobuf", "k8s"}).ok());
  EXPECT_FALSE(DecodePod({Encoding::kProtobuf, "\xff\xff\xff"}).ok());
}

TEST(Decoder, NodeReadiness) {
  const absl::StatusOr<Node> node = DecodeNode(
      {Encoding::kJson,
       R"({"spec":{"unschedulable":true},"status":{"conditions":[{"type":"Ready","status":"True"}],)"
       R"("allocatable":{"cpu":"7910m","nvidia.com/gpu":"8"}}})"});
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_TRUE(node->Ready());
  EXPECT_TRUE(node->unschedulable);
  EXPECT_THAT(node->allocatable,
              ElementsAre(ResourceAmount{"cpu", 7910}, ResourceAmount{"nvidia.com/gpu", 8}));
}

TEST(ListPage, ReadsBothEncodings) {
  const std::string body =
      R"({"kind":"PodList","metadata":{"resourceVersion":"7","continue":"abc"},)"
      R"("items":[{"metadata":{"name":"a"}} , {"metadata":{"name":"b]}\""}}]})";
  const Reply reply{200, "application/json", body};
  const absl::StatusOr<ListPage> page = ListPageOf(reply);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->resource_version, "7");
  EXPECT_EQ(page->continue_token, "abc");
  ASSERT_EQ(page->items.size(), 2u);
  EXPECT_EQ(DecodeMeta(page->items[1])->name, "b]}\"");
  EXPECT_EQ(ListPageOf({200, "application/json", R"({"items":null})"})->items.size(), 0u);
  for (const char* bad : {"", "[]", R"({"items":{}})", R"({"items":[1,]})", R"({"items":[{]})"}) {
    EXPECT_FALSE(ListPageOf({200, "application/json", bad}).ok()) << bad;
  }
}

TEST(HasProtobufDecoder, OnlyForWhatIsDecodedHere) {
  EXPECT_TRUE(HasProtobufDecoder(kPods));
  EXPECT_TRUE(HasProtobufDecoder(kLeases));
  EXPECT_FALSE(HasProtobufDecoder(kServices));
  EXPECT_FALSE(HasProtobufDecoder({"asterism.dev", "v1alpha1", "pods", "Pod", true, false}));
}

}  // namespace
}  // namespace asterism::kube
