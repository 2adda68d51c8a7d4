#include "kube/testing/fake_api_server.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "kube/api_error.h"
#include "kube/testing/fake_objects.h"
#include "kube/testing/json_patch.h"
#include "nlohmann/json.hpp"

namespace asterism::kube::testing {
namespace {

using nlohmann::json;

constexpr absl::Duration kClientTimeout = absl::Seconds(10);
constexpr absl::Duration kGarbageDelay = absl::Milliseconds(20);

absl::Status NotFound(const ResourceType& type, std::string_view name) {
  return MakeApiError({.http_code = 404, .reason = "NotFound"},
                      fmt::format("{} \"{}\" not found", type.plural, name));
}

absl::Status Conflict(const ResourceType& type, std::string_view name, std::string_view what) {
  return MakeApiError(
      {.http_code = 409, .reason = "Conflict"},
      fmt::format("Operation cannot be fulfilled on {} \"{}\": {}", type.plural, name, what));
}

absl::Status Invalid(const ResourceType& type, std::string_view field, std::string_view what) {
  return MakeApiError({.http_code = 422,
                       .reason = "Invalid",
                       .causes = {{"FieldValueInvalid", std::string(what), std::string(field)}}},
                      fmt::format("{} is invalid: {}: {}", type.kind, field, what));
}

absl::StatusOr<json> ParseObject(const std::string& body) {
  json object = json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return MakeApiError({.http_code = 400, .reason = "BadRequest"},
                        "the body of the request is not a JSON object");
  }
  return object;
}

// A member of an unexpected type is the client's fault.
absl::StatusOr<Reply> Carefully(const std::function<absl::StatusOr<Reply>()>& work) {
  try {
    return work();
  } catch (const json::exception& error) {
    return MakeApiError({.http_code = 400, .reason = "BadRequest"}, error.what());
  }
}

}  // namespace

struct FakeApiServer::Snapshot {
  uint64_t version = 0;
  std::vector<StoredObject> rest;
};

FakeApiServer::FakeApiServer(const base::Clock& clock, base::Executor& executor,
                             FakeApiServerOptions options)
    : clock_(clock),
      executor_(executor),
      options_(options),
      store_(options.history_max),
      watches_(executor, store_, options.latency, options.bookmark_period) {}

FakeApiServer::~FakeApiServer() = default;

// --- Requests ---

std::optional<Fault> FakeApiServer::TakeFault(std::string_view verb, std::string_view plural) {
  for (auto fault = faults_.begin(); fault != faults_.end(); ++fault) {
    if ((fault->verb.empty() || fault->verb == verb) &&
        (fault->plural.empty() || fault->plural == plural)) {
      const Fault taken = *fault;
      if (--fault->count <= 0) {
        faults_.erase(fault);
      }
      return taken;
    }
  }
  return std::nullopt;
}

absl::Status FakeApiServer::FaultStatus(const Fault& fault) {
  if (fault.no_answer) {
    return absl::DeadlineExceededError("request timed out");
  }
  if (fault.http_code == 0) {
    return absl::UnavailableError("connection broken");
  }
  // Overload is told in plain text, without a reason.
  const std::string text = fault.http_code == 429 ? "Too many requests, please try again later."
                                                  : fmt::format("injected {}", fault.http_code);
  return MakeApiError(
      {.http_code = fault.http_code, .reason = fault.reason, .retry_after = fault.retry_after},
      text);
}

void FakeApiServer::InjectFault(Fault fault) {
  faults_.push_back(std::move(fault));
}

void FakeApiServer::SetDown(bool down) {
  down_ = down;
  if (down) {
    watches_.Cut("", absl::UnavailableError("connection broken"));
  }
}

void FakeApiServer::Serve(std::string_view verb, const ResourceType& type,
                          std::function<Outcome()> work, ReplyCallback done) {
  executor_.PostAfter(
      options_.latency, alive_.Wrap([this, verb = std::string(verb), type, work = std::move(work),
                                     done = std::move(done)]() mutable {
        Outcome outcome = absl::UnavailableError("connection refused");
        absl::Duration wait = options_.latency;
        if (!down_) {
          ++requests_[fmt::format("{} {}", verb, type.plural)];
          const std::optional<Fault> fault = TakeFault(verb, type.plural);
          if (!fault.has_value() || fault->commit) {
            outcome = Carefully(work);
          }
          if (fault.has_value()) {
            outcome = FaultStatus(*fault);
            wait = fault->no_answer ? kClientTimeout : wait;
          }
        }
        executor_.PostAfter(wait, [done = std::move(done), outcome = std::move(outcome)]() mutable {
          done(std::move(outcome));
        });
      }));
}

void FakeApiServer::Get(const ResourceType& type, ObjectName name, Lane /*lane*/,
                        ReplyCallback done) {
  Serve(
      "get", type,
      [this, type, name]() -> Outcome {
        const StoredObject* found =
            store_.Find(FakeStore::KindKey(type), FakeStore::ObjectKey(type, name));
        return found == nullptr ? Outcome(NotFound(type, name.name)) : Ok(200, *found);
      },
      std::move(done));
}

void FakeApiServer::Create(const ResourceType& type, std::string namespace_name, std::string body,
                           CreateOptions options, Lane /*lane*/, ReplyCallback done) {
  Serve(
      "create", type,
      [this, type, namespace_name = std::move(namespace_name), body = std::move(body), options] {
        return DoCreate(type, namespace_name, body, options.dry_run);
      },
      std::move(done));
}

void FakeApiServer::Update(const ResourceType& type, ObjectName name, std::string body,
                           Lane /*lane*/, ReplyCallback done) {
  Serve(
      "update", type,
      [this, type, name = std::move(name), body = std::move(body)] {
        return DoUpdate(type, name, body);
      },
      std::move(done));
}

void FakeApiServer::Patch(const ResourceType& type, ObjectName name, std::string body,
                          PatchOptions options, ReplyCallback done) {
  Serve(
      "patch", type,
      [this, type, name = std::move(name), body = std::move(body), options = std::move(options)] {
        return DoPatch(type, name, body, options);
      },
      std::move(done));
}

void FakeApiServer::Delete(const ResourceType& type, ObjectName name, DeleteOptions options,
                           ReplyCallback done) {
  Serve(
      "delete", type,
      [this, type, name = std::move(name), options = std::move(options)] {
        return DoDelete(type, name, options);
      },
      std::move(done));
}

void FakeApiServer::List(const ResourceType& type, ListRequest request, ReplyCallback done) {
  Serve(
      "list", type, [this, type, request = std::move(request)] { return DoList(type, request); },
      std::move(done));
}

std::unique_ptr<WatchStream> FakeApiServer::Watch(const ResourceType& type, WatchRequest request,
                                                  std::shared_ptr<WatchHandler> handler) {
  ++requests_[fmt::format("watch {}", type.plural)];
  absl::Status refused;
  if (down_) {
    refused = absl::UnavailableError("connection refused");
  } else if (const std::optional<Fault> fault = TakeFault("watch", type.plural)) {
    refused = FaultStatus(*fault);
  } else if (request.send_initial_events && !options_.watch_list) {
    refused = Invalid(type, "sendInitialEvents",
                      "Forbidden: sendInitialEvents is forbidden for watch unless the WatchList "
                      "feature gate is enabled");
  }
  return watches_.Open(type, request, std::move(refused), std::move(handler));
}

// --- What requests do ---

FakeApiServer::Outcome FakeApiServer::Ok(int code, const StoredObject& object) const {
  return Reply{code, "application/json", *object.text};
}

absl::Status FakeApiServer::Admit(const ResourceType& type, std::string_view verb, Json& object) {
  if (!admission_) {
    return absl::OkStatus();
  }
  const absl::Status status = admission_(type, verb, object);
  if (status.ok() || GetErrorDetails(status).http_code != 0) {
    return status;
  }
  return MakeApiError({.http_code = 403, .reason = "Forbidden"}, std::string(status.message()));
}

absl::Status FakeApiServer::DefaultPod(Json& pod) const {
  DefaultPodSpec(pod);
  Json& spec = pod["spec"];
  const std::string name = spec.value("priorityClassName", "");
  if (name.empty() || name.starts_with("system-")) {
    return absl::OkStatus();
  }
  const StoredObject* found = store_.Find(FakeStore::KindKey(kPriorityClasses), name);
  if (found == nullptr) {
    return MakeApiError({.http_code = 403, .reason = "Forbidden"},
                        fmt::format("no PriorityClass with name {} was found", name));
  }
  spec["priority"] = found->object->value("value", 0);
  return absl::OkStatus();
}

void FakeApiServer::FillIn(const ResourceType& type, Json& object) {
  object["apiVersion"] = type.group.empty() ? std::string(type.version)
                                            : fmt::format("{}/{}", type.group, type.version);
  object["kind"] = type.kind;
  Json& metadata = object["metadata"];
  metadata["uid"] = fmt::format("00000000-0000-4000-8000-{:012x}", ++uids_);
  metadata["creationTimestamp"] = SecondsTime(clock_.Now());
  metadata["generation"] = 1;
}

FakeApiServer::Outcome FakeApiServer::DoCreate(const ResourceType& type,
                                               const std::string& namespace_name,
                                               const std::string& body, bool dry_run) {
  ASSIGN_OR_RETURN(Json object, ParseObject(body));
  if (const auto review = reviews_.find(type.plural); review != reviews_.end()) {
    review->second(object);
    return Reply{201, "application/json", object.dump()};
  }
  Json& metadata = object["metadata"];
  if (!metadata.is_object()) {
    return Invalid(type, "metadata.name", "Required value: name or generateName is required");
  }
  if (metadata.value("name", "").empty() && !metadata.value("generateName", "").empty()) {
    metadata["name"] = fmt::format("{}{:05}", metadata.value("generateName", ""), ++names_);
  }
  const ObjectName name{namespace_name, metadata.value("name", "")};
  if (name.name.empty()) {
    return Invalid(type, "metadata.name", "Required value: name or generateName is required");
  }
  if (metadata.contains("resourceVersion")) {
    return MakeApiError({.http_code = 400, .reason = "BadRequest"},
                        "resourceVersion should not be set on objects to be created");
  }
  if (type.namespaced) {
    metadata["namespace"] = namespace_name;
  }
  if (type.plural == kPods.plural) {
    RETURN_IF_ERROR(DefaultPod(object));
    object["status"] = {{"phase", "Pending"}};
  } else if (HasStatusSubresource(type) && type.plural != kNodes.plural) {
    object.erase("status");
  }
  RETURN_IF_ERROR(Admit(type, "create", object));
  const std::string kind = FakeStore::KindKey(type);
  const std::string key = FakeStore::ObjectKey(type, name);
  if (store_.Find(kind, key) != nullptr) {
    return MakeApiError({.http_code = 409, .reason = "AlreadyExists"},
                        fmt::format("{} \"{}\" already exists", type.plural, name.name));
  }
  FillIn(type, object);
  if (dry_run) {
    return Reply{201, "application/json", object.dump()};
  }
  Store(kind, key, std::move(object));
  return Ok(201, *store_.Find(kind, key));
}

FakeApiServer::Outcome FakeApiServer::DoUpdate(const ResourceType& type, const ObjectName& name,
                                               const std::string& body) {
  ASSIGN_OR_RETURN(Json after, ParseObject(body));
  const StoredObject* found =
      store_.Find(FakeStore::KindKey(type), FakeStore::ObjectKey(type, name));
  if (found == nullptr) {
    return NotFound(type, name.name);
  }
  const Json before = *found->object;
  if (HasStatusSubresource(type)) {
    KeepMember(before, "status", after);
  }
  return Commit(type, name, before, std::move(after), /*status_only=*/false);
}

FakeApiServer::Outcome FakeApiServer::DoPatch(const ResourceType& type, const ObjectName& name,
                                              const std::string& body,
                                              const PatchOptions& options) {
  const Json patch = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (patch.is_discarded() || patch.is_array() != (options.type == PatchType::kJson)) {
    return MakeApiError({.http_code = 400, .reason = "BadRequest"}, "the patch is not valid JSON");
  }
  if (options.type == PatchType::kApply && options.field_manager.empty()) {
    return MakeApiError({.http_code = 400, .reason = "BadRequest"},
                        "PatchOptions.fieldManager is required for apply patch");
  }
  const StoredObject* found =
      store_.Find(FakeStore::KindKey(type), FakeStore::ObjectKey(type, name));
  if (found == nullptr) {
    if (options.type != PatchType::kApply || !options.subresource.empty()) {
      return NotFound(type, name.name);
    }
    Json object = patch;
    object["metadata"]["name"] = name.name;
    Outcome created = DoCreate(type, name.namespace_name, object.dump(), false);
    if (created.ok()) {
      const std::string uid = Json::parse(created->body)["metadata"]["uid"];
      applied_[fmt::format("{}|{}|", uid, options.field_manager)] = std::make_shared<Json>(patch);
    }
    return created;
  }
  const Json before = *found->object;
  Json after;
  if (options.type == PatchType::kMerge) {
    after = MergePatched(before, patch);
  } else if (options.type == PatchType::kJson) {
    absl::StatusOr<Json> patched = JsonPatched(before, patch);
    if (!patched.ok()) {
      return Invalid(type, "patch", std::string(patched.status().message()));
    }
    after = *std::move(patched);
  } else {
    std::shared_ptr<Json>& last =
        applied_[fmt::format("{}|{}|{}", before["metadata"].value("uid", ""), options.field_manager,
                             options.subresource)];
    after = Applied(before, last == nullptr ? Json::object() : *last, patch);
    last = std::make_shared<Json>(patch);
  }
  if (options.subresource == "status") {
    Json only_status = before;
    KeepMember(after, "status", only_status);
    only_status["metadata"]["resourceVersion"] = after["metadata"]["resourceVersion"];
    after = std::move(only_status);
  } else if (HasStatusSubresource(type)) {
    KeepMember(before, "status", after);
  }
  return Commit(type, name, before, std::move(after), options.subresource == "status");
}

FakeApiServer::Outcome FakeApiServer::Commit(const ResourceType& type, const ObjectName& name,
                                             const Json& before, Json after, bool status_only) {
  const Json& old_metadata = before["metadata"];
  Json& metadata = after["metadata"];
  const std::string version = metadata.value("resourceVersion", "");
  if (!version.empty() && version != old_metadata.value("resourceVersion", "")) {
    return Conflict(type, name.name,
                    "the object has been modified; please apply your changes to the latest "
                    "version and try again");
  }
  if (const std::string uid = metadata.value("uid", "");
      !uid.empty() && uid != old_metadata.value("uid", "")) {
    return Conflict(type, name.name, "Precondition failed: UID in precondition differs");
  }
  for (const char* member : {"name", "namespace", "uid", "resourceVersion", "creationTimestamp",
                             "generation", "deletionTimestamp", "deletionGracePeriodSeconds"}) {
    KeepMember(old_metadata, member, metadata);
  }
  KeepMember(before, "apiVersion", after);
  KeepMember(before, "kind", after);
  RETURN_IF_ERROR(Admit(type, status_only ? "status" : "update", after));
  const std::string kind = FakeStore::KindKey(type);
  const std::string key = FakeStore::ObjectKey(type, name);
  if (after == before) {
    return Ok(200, *store_.Find(kind, key));  // no new version
  }
  if (!status_only && SpecDiffers(before, after)) {
    metadata["generation"] = old_metadata.value("generation", int64_t{1}) + 1;
  }
  Store(kind, key, std::move(after));
  const StoredObject stored = *store_.Find(kind, key);
  if (IsReadyToGo(*stored.object)) {
    Erase(kind, key);
  }
  return Ok(200, stored);
}

FakeApiServer::Outcome FakeApiServer::DoDelete(const ResourceType& type, const ObjectName& name,
                                               const DeleteOptions& options) {
  const std::string kind = FakeStore::KindKey(type);
  const std::string key = FakeStore::ObjectKey(type, name);
  const StoredObject* found = store_.Find(kind, key);
  if (found == nullptr) {
    return Reply{404, "application/json", R"({"kind":"Status","reason":"NotFound","code":404})"};
  }
  Json object = *found->object;
  Json& metadata = object["metadata"];
  const std::string uid = metadata.value("uid", "");
  if (!options.uid.empty() && options.uid != uid) {
    return Conflict(type, name.name,
                    fmt::format("Precondition failed: UID in precondition: {}, UID in object "
                                "meta: {}",
                                options.uid, uid));
  }
  const int64_t grace = type.plural == kPods.plural ? PodGraceSeconds(object, options) : 0;
  const bool finalizers = metadata.contains("finalizers") && !metadata["finalizers"].empty();
  if (grace == 0 && !finalizers) {
    const StoredObject last = *found;
    Erase(kind, key);
    return Ok(200, last);
  }
  if (!metadata.contains("deletionTimestamp")) {
    metadata["deletionTimestamp"] = SecondsTime(clock_.Now() + absl::Seconds(grace));
    metadata["deletionGracePeriodSeconds"] = grace;
    metadata["generation"] = metadata.value("generation", int64_t{1}) + 1;
    Store(kind, key, std::move(object));
    if (grace > 0) {
      FinishPodLater(type, name, uid);
    }
  }
  return Ok(200, *store_.Find(kind, key));
}

FakeApiServer::Outcome FakeApiServer::DoList(const ResourceType& type, const ListRequest& request) {
  ASSIGN_OR_RETURN(const Selector selector,
                   Selector::Parse(request.label_selector, request.field_selector));
  auto snapshot = std::make_shared<Snapshot>();
  if (!request.continue_token.empty()) {
    const auto found = snapshots_.find(request.continue_token);
    if (found == snapshots_.end() || !store_.Knows(found->second->version)) {
      return MakeApiError({.http_code = 410, .reason = "Expired"},
                          "The provided continue parameter is too old");
    }
    snapshot = found->second;
    snapshots_.erase(found);
  } else {
    const uint64_t wanted =
        request.resource_version.empty() ? 0 : std::stoull(request.resource_version);
    if (wanted > store_.version()) {
      return MakeApiError(
          {.http_code = 504,
           .reason = "Timeout",
           .causes = {{"ResourceVersionTooLarge", "Too large resource version", ""}},
           .retry_after = absl::Seconds(1)},
          "Too large resource version");
    }
    snapshot->version = store_.version();
    for (const auto& [key, object] : store_.All(FakeStore::KindKey(type))) {
      const bool here =
          request.namespace_name.empty() ||
          (*object.object)["metadata"].value("namespace", "") == request.namespace_name;
      if (here && selector.Matches(*object.object)) {
        snapshot->rest.push_back(object);
      }
    }
  }
  const size_t count = request.limit > 0
                           ? std::min(snapshot->rest.size(), static_cast<size_t>(request.limit))
                           : snapshot->rest.size();
  std::string items;
  for (size_t i = 0; i < count; ++i) {
    items += i == 0 ? "" : ",";
    items += *snapshot->rest[i].text;
  }
  const uint64_t version = snapshot->version;
  std::string token;
  if (count < snapshot->rest.size()) {
    snapshot->rest.erase(snapshot->rest.begin(),
                         snapshot->rest.begin() + static_cast<std::ptrdiff_t>(count));
    token = fmt::format("page-{}", ++names_);
    snapshots_[token] = std::move(snapshot);
  }
  return Reply{
      200, "application/json",
      fmt::format(R"({{"kind":"{}List","metadata":{{"resourceVersion":"{}","continue":"{}"}})"
                  R"(,"items":[{}]}})",
                  type.kind, version, token, items)};
}

// --- Changes ---

void FakeApiServer::Store(const std::string& kind, const std::string& key, Json object) {
  watches_.OnChange(store_.Put(kind, key, std::move(object)));
}

void FakeApiServer::Erase(const std::string& kind, const std::string& key) {
  const StoreChange change = store_.Remove(kind, key);
  watches_.OnChange(change);
  if (options_.collect_garbage) {
    const std::string uid = (*change.before->object)["metadata"].value("uid", "");
    executor_.PostAfter(kGarbageDelay, alive_.Wrap([this, uid] { CollectGarbage(uid); }));
  }
}

void FakeApiServer::CollectGarbage(const std::string& owner_uid) {
  std::vector<std::pair<std::string, std::string>> dependents;
  for (const auto& [kind, objects] : store_.kinds()) {
    for (const auto& [key, object] : objects) {
      if (IsOwnedBy(*object.object, owner_uid)) {
        dependents.emplace_back(kind, key);
      }
    }
  }
  for (const auto& [kind, key] : dependents) {
    const Json& object = *store_.Find(kind, key)->object;
    const size_t slash = kind.find('/');
    const ResourceType type{std::string_view(kind).substr(0, slash), "",
                            std::string_view(kind).substr(slash + 1), "",
                            object["metadata"].contains("namespace")};
    DoDelete(type,
             {object["metadata"].value("namespace", ""), object["metadata"].value("name", "")}, {})
        .IgnoreError();
  }
}

void FakeApiServer::FinishPodLater(const ResourceType& type, const ObjectName& name,
                                   const std::string& uid) {
  if (options_.pod_deletion_delay == absl::InfiniteDuration()) {
    return;
  }
  // The caller's type may be made of temporary names.
  executor_.PostAfter(options_.pod_deletion_delay,
                      alive_.Wrap([this, namespaced = type.namespaced, name, uid] {
                        const auto pod = Find(kPods, name);
                        if (namespaced && pod != nullptr && (*pod)["metadata"]["uid"] == uid) {
                          FinishDelete(kPods, name);
                        }
                      }));
}

// --- For tests ---

void FakeApiServer::Put(const ResourceType& type, Json object) {
  const ObjectName name{object["metadata"].value("namespace", ""),
                        object["metadata"].value("name", "")};
  const std::string kind = FakeStore::KindKey(type);
  const std::string key = FakeStore::ObjectKey(type, name);
  const StoredObject* found = store_.Find(kind, key);
  if (type.plural == kPods.plural) {
    DefaultPodSpec(object);
  }
  const Json given = object["metadata"];
  FillIn(type, object);
  if (found != nullptr) {
    object["metadata"]["generation"] = (*found->object)["metadata"].value("generation", 1) +
                                       (SpecDiffers(*found->object, object) ? 1 : 0);
    for (const char* member : {"uid", "creationTimestamp"}) {
      KeepMember((*found->object)["metadata"], member, object["metadata"]);
    }
  }
  for (const char* member : {"uid", "creationTimestamp", "generation"}) {
    if (given.contains(member)) {
      object["metadata"][member] = given[member];
    }
  }
  Store(kind, key, std::move(object));
}

void FakeApiServer::Merge(const ResourceType& type, const ObjectName& name, const Json& patch) {
  const std::string kind = FakeStore::KindKey(type);
  const std::string key = FakeStore::ObjectKey(type, name);
  const Json& before = *store_.Find(kind, key)->object;
  Json after = MergePatched(before, patch);
  if (SpecDiffers(before, after)) {
    after["metadata"]["generation"] = before["metadata"].value("generation", int64_t{1}) + 1;
  }
  Store(kind, key, std::move(after));
}

std::shared_ptr<const nlohmann::json> FakeApiServer::Find(const ResourceType& type,
                                                          const ObjectName& name) const {
  const StoredObject* found =
      store_.Find(FakeStore::KindKey(type), FakeStore::ObjectKey(type, name));
  return found == nullptr ? nullptr : found->object;
}

std::vector<std::shared_ptr<const nlohmann::json>> FakeApiServer::All(
    const ResourceType& type) const {
  std::vector<std::shared_ptr<const Json>> objects;
  for (const auto& [key, object] : store_.All(FakeStore::KindKey(type))) {
    objects.push_back(object.object);
  }
  return objects;
}

void FakeApiServer::Remove(const ResourceType& type, const ObjectName& name) {
  const std::string kind = FakeStore::KindKey(type);
  const std::string key = FakeStore::ObjectKey(type, name);
  if (store_.Find(kind, key) != nullptr) {
    Erase(kind, key);
  }
}

void FakeApiServer::FinishDelete(const ResourceType& type, const ObjectName& name) {
  const std::string kind = FakeStore::KindKey(type);
  const std::string key = FakeStore::ObjectKey(type, name);
  const StoredObject* found = store_.Find(kind, key);
  if (found == nullptr || !(*found->object)["metadata"].contains("deletionTimestamp")) {
    return;
  }
  Json object = *found->object;
  object["metadata"]["deletionGracePeriodSeconds"] = 0;
  if (IsReadyToGo(object)) {
    Erase(kind, key);
  } else {
    Store(kind, key, std::move(object));  // finalizers keep it
  }
}

void FakeApiServer::CutWatches(const ResourceType& type, const absl::Status& status) {
  watches_.Cut(FakeStore::KindKey(type), status);
}

}  // namespace asterism::kube::testing
