#include "controller/asked_job.h"

#include <cstddef>
#include <string>

#include "base/status_macros.h"
#include "base/strings.h"
#include "controller/object_names.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace asterism::controller {
namespace {

using nlohmann::json;

constexpr char kField[] = "training_job_json";
constexpr size_t kShownKindMax = 64;

struct JobHead {
  std::string kind;
  std::string namespace_name;
  std::string name;
};

// Keeps kind and metadata's names, and builds nothing. Of a key that stands twice the last one
// counts, as for the parser that reads the job.
class JobHeadReader final : public nlohmann::json_sax<json> {
 public:
  const JobHead& head() const { return head_; }
  // Where it stopped, if it did.
  size_t error_at() const { return error_at_; }
  bool object() const { return object_; }

  bool null() override { return Value(); }
  bool boolean(bool /*value*/) override { return Value(); }
  bool number_integer(number_integer_t /*value*/) override { return Value(); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return Value(); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return Value(); }
  bool binary(binary_t& /*value*/) override { return Value(); }
  bool string(string_t& value) override {
    if (std::string* const wanted = Wanted()) {
      *wanted = value;
    }
    return true;
  }
  bool start_object(size_t /*elements*/) override { return Open(/*object=*/true); }
  bool start_array(size_t /*elements*/) override { return Open(/*object=*/false); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& value) override {
    if (depth_ == 1) {
      top_key_ = value;
    } else if (depth_ == 2 && in_metadata_) {
      metadata_key_ = value;
    }
    return true;
  }
  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    error_at_ = position;
    return false;
  }

 private:
  // The text that a value at this place is, or null.
  std::string* Wanted() {
    if (depth_ == 1 && top_key_ == "kind") {
      return &head_.kind;
    }
    if (depth_ == 2 && in_metadata_ && metadata_key_ == "namespace") {
      return &head_.namespace_name;
    }
    if (depth_ == 2 && in_metadata_ && metadata_key_ == "name") {
      return &head_.name;
    }
    return nullptr;
  }
  // One that is no text.
  bool Value() {
    if (std::string* const wanted = Wanted()) {
      wanted->clear();
    }
    return true;
  }
  bool Open(bool object) {
    Value();
    if (depth_ == 0) {
      object_ = object;
    }
    if (depth_ == 1 && top_key_ == "metadata") {
      in_metadata_ = object;
      head_.namespace_name.clear();
      head_.name.clear();
    }
    ++depth_;
    return true;
  }
  bool Close() {
    if (--depth_ == 1) {
      in_metadata_ = false;
    }
    return true;
  }

  JobHead head_;
  std::string top_key_;
  std::string metadata_key_;
  size_t depth_ = 0;
  bool object_ = false;
  bool in_metadata_ = false;
  size_t error_at_ = 0;
};

absl::Status WrongJob(std::string_view problem) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", kField, problem));
}

absl::StatusOr<operators::TrainingJob> ParseJob(std::string_view job_json) {
  absl::StatusOr<operators::TrainingJob> job = operators::ParseTrainingJobWithoutStatus(job_json);
  return job.ok() ? job : WrongJob(base::ToStd(job.status().message()));
}

}  // namespace

absl::StatusOr<kube::ObjectName> ReadAskedJobName(std::string_view job_json) {
  if (job_json.empty()) {
    return WrongJob(
        "is missing: send a TrainingJob as `kubectl create --dry-run=client -o json -f FILE` "
        "prints it");
  }
  JobHeadReader reader;
  if (!json::sax_parse(job_json, &reader)) {
    return WrongJob(fmt::format("is no JSON at byte {}: send a TrainingJob as JSON, not as YAML",
                                reader.error_at()));
  }
  const JobHead& head = reader.head();
  if (!reader.object()) {
    return WrongJob("is not a JSON object: send a TrainingJob");
  }
  if (head.kind != operators::kTrainingJobs.kind) {
    return WrongJob(
        head.kind.empty()
            ? std::string("kind: is missing: send a TrainingJob")
            : fmt::format("kind: \"{}\" is not TrainingJob: a TrainingJob is asked about",
                          head.kind.substr(0, kShownKindMax)));
  }
  RETURN_IF_ERROR(
      CheckNamespaceName(fmt::format("{}: metadata.namespace", kField), head.namespace_name));
  RETURN_IF_ERROR(CheckObjectName(fmt::format("{}: metadata.name", kField), head.name));
  return kube::ObjectName{head.namespace_name, head.name};
}

absl::StatusOr<operators::TrainingJob> ReadAskedJob(std::string_view job_json,
                                                    const kube::ObjectName& name) {
  ASSIGN_OR_RETURN(operators::TrainingJob job, ParseJob(job_json));
  if (job.meta.namespace_name != name.namespace_name || job.meta.name != name.name) {
    return WrongJob("metadata: says two different names: write each key once");
  }
  return job;
}

absl::StatusOr<operators::TrainingJob> WithGpus(const operators::TrainingJob& job, int64_t gpus) {
  json object = *job.object;
  object["spec"]["gpus"] = gpus;
  return ParseJob(object.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace asterism::controller
