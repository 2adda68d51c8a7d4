// File: kube/testing/fake_api_server.h
//
// A Kubernetes API server in this process, under simulated time: what kube/client.h and
// kube/watch_source.h promise, with the faults that a real one has.
//
//   SimClock clock;  SimExecutor executor(clock);
//   FakeApiServer server(clock, executor, {});
//   server.Put(kNodes, node_json);
//   Informer<Node> nodes(server, executor, clock, rng, kNodes, {}, DecodeNode, {...});
//   server.InjectFault({.verb = "create", .plural = "pods", .http_code = 504, .commit = true});
//
// It knows: resourceVersions, uids, generations, name and version conflicts (409), preconditions
// (409), pages, WatchList, bookmarks, expiry (410), selectors, merge, JSON and apply patches, the
// status subresource, finalizers, graceful deletion of bound pods, owner garbage collection, dry
// run, defaults of pods that matter here (requests from limits, priority from the class). It does
// not validate schemas: SetAdmission can.
//
// Thread-safety: lives on one executor. Cost: microseconds a request; objects are JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/executor.h"
#include "kube/client.h"
#include "kube/testing/fake_store.h"
#include "kube/testing/fake_watch.h"
#include "kube/watch_source.h"
#include "nlohmann/json_fwd.hpp"

namespace asterism::kube::testing {

struct FakeApiServerOptions {
  absl::Duration latency = absl::Milliseconds(1);  // one way
  absl::Duration bookmark_period = absl::Minutes(1);
  bool watch_list = true;
  size_t history_max = 100'000;  // changes that a watch can start from
  // How long a bound pod takes to end after its deletion; infinite: until FinishDelete.
  absl::Duration pod_deletion_delay = absl::Milliseconds(100);
  bool collect_garbage = true;  // dependents of a deleted owner go too
};

// What the next requests that match meet instead of, or after, being carried out.
struct Fault {
  std::string verb;    // get, list, watch, create, update, patch, delete; empty: any
  std::string plural;  // empty: any kind
  int count = 1;
  int http_code = 503;  // 0: the connection breaks
  std::string reason;   // empty: the usual one of the code
  std::optional<absl::Duration> retry_after;
  bool commit = false;     // the request is carried out all the same
  bool no_answer = false;  // and nothing comes back until the client gives up (10 s)
};

// May change `object` or refuse it. `verb` as in Fault. A status without details becomes 403.
using Admission = std::function<absl::Status(const ResourceType& type, std::string_view verb,
                                             nlohmann::json& object)>;

// Fills in the status of a review (TokenReview, SubjectAccessReview) from its spec.
using Review = std::function<void(nlohmann::json& object)>;

class FakeApiServer final : public Client, public WatchSource {
 public:
  FakeApiServer(const base::Clock& clock, base::Executor& executor, FakeApiServerOptions options);
  ~FakeApiServer() override;

  // For clients.
  void Get(const ResourceType& type, ObjectName name, Lane lane, ReplyCallback done) override;
  void Create(const ResourceType& type, std::string namespace_name, std::string body,
              CreateOptions options, Lane lane, ReplyCallback done) override;
  void Update(const ResourceType& type, ObjectName name, std::string body, Lane lane,
              ReplyCallback done) override;
  void Patch(const ResourceType& type, ObjectName name, std::string body, PatchOptions options,
             ReplyCallback done) override;
  void Delete(const ResourceType& type, ObjectName name, DeleteOptions options,
              ReplyCallback done) override;
  void List(const ResourceType& type, ListRequest request, ReplyCallback done) override;
  std::unique_ptr<WatchStream> Watch(const ResourceType& type, WatchRequest request,
                                     std::shared_ptr<WatchHandler> handler) override;

  // For tests: at once, without admission. Names come from the object's metadata.
  // Creates or replaces the whole object, status included; fills in what is missing.
  void Put(const ResourceType& type, nlohmann::json object);
  // Merges into the whole object, status included. The object exists.
  void Merge(const ResourceType& type, const ObjectName& name, const nlohmann::json& patch);
  // Null when absent.
  std::shared_ptr<const nlohmann::json> Find(const ResourceType& type,
                                             const ObjectName& name) const;
  std::vector<std::shared_ptr<const nlohmann::json>> All(const ResourceType& type) const;
  // Gone at once, whatever finalizers say.
  void Remove(const ResourceType& type, const ObjectName& name);
  // The kubelet has ended a pod that is being deleted.
  void FinishDelete(const ResourceType& type, const ObjectName& name);

  void InjectFault(Fault fault);
  void ClearFaults() { faults_.clear(); }
  void SetAdmission(Admission admission) { admission_ = std::move(admission); }
  // Creating an object of this kind ("tokenreviews") is answered by `review`, and nothing is
  // stored.
  void SetReview(const std::string& plural, Review review) { reviews_[plural] = std::move(review); }
  // Nothing answers, streams break: as if the process were away.
  void SetDown(bool down);
  void Compact() { store_.Compact(); }
  void SkipVersions(uint64_t versions) { store_.Skip(versions); }
  // Ends the watches of a kind; not OK: with this error, kUnavailable for a broken connection.
  void CutWatches(const ResourceType& type, const absl::Status& status);
  void CutAllWatches(const absl::Status& status) { watches_.Cut("", status); }
  // Changes wait while held; streams look alive.
  void HoldWatches(bool held) { watches_.Hold(held); }
  size_t open_watches() const { return watches_.open(); }
  // "create pods" -> how many arrived.
  const std::map<std::string, int>& requests() const { return requests_; }
  uint64_t version() const { return store_.version(); }

 private:
  using Json = nlohmann::json;
  using Outcome = absl::StatusOr<Reply>;
  struct Snapshot;

  // Carries `work` out when the request arrives, and answers later; faults come between.
  void Serve(std::string_view verb, const ResourceType& type, std::function<Outcome()> work,
             ReplyCallback done);
  std::optional<Fault> TakeFault(std::string_view verb, std::string_view plural);
  static absl::Status FaultStatus(const Fault& fault);

  Outcome DoCreate(const ResourceType& type, const std::string& namespace_name,
                   const std::string& body, bool dry_run);
  Outcome DoUpdate(const ResourceType& type, const ObjectName& name, const std::string& body);
  Outcome DoPatch(const ResourceType& type, const ObjectName& name, const std::string& body,
                  const PatchOptions& options);
  Outcome DoDelete(const ResourceType& type, const ObjectName& name, const DeleteOptions& options);
  Outcome DoList(const ResourceType& type, const ListRequest& request);

  absl::Status Admit(const ResourceType& type, std::string_view verb, Json& object);
  absl::Status DefaultPod(Json& pod) const;
  void FillIn(const ResourceType& type, Json& object);
  // Stores a changed object: keeps what clients cannot change, counts generations, ends deletion.
  Outcome Commit(const ResourceType& type, const ObjectName& name, const Json& before, Json after,
                 bool status_only);
  void Store(const std::string& kind, const std::string& key, Json object);
  void Erase(const std::string& kind, const std::string& key);
  void CollectGarbage(const std::string& owner_uid);
  void FinishPodLater(const ResourceType& type, const ObjectName& name, const std::string& uid);
  Outcome Ok(int code, const StoredObject& object) const;

  const base::Clock& clock_;
  base::Executor& executor_;
  const FakeApiServerOptions options_;
  FakeStore store_;
  FakeWatches watches_;
  Admission admission_;
  std::map<std::string, Review, std::less<>> reviews_;  // by plural
  std::vector<Fault> faults_;
  bool down_ = false;
  std::map<std::string, int> requests_;
  std::map<std::string, std::shared_ptr<Snapshot>> snapshots_;  // by continue token
  std::map<std::string, std::shared_ptr<Json>> applied_;  // by object uid, manager, subresource
  uint64_t names_ = 0;
  uint64_t uids_ = 0;
  base::Alive alive_;
};

}  // namespace asterism::kube::testing
