// Reads any bytes as a WhatIfRequest, and what it asks about.

#include <cstddef>
#include <cstdint>

#include "asterism/v1/placement.pb.h"
#include "base/check.h"
#include "controller/hypothesis.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  asterism::v1::WhatIfRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) {
    return 0;
  }
  const auto names = asterism::controller::ReadAskedNames(request);
  const auto hypothesis = asterism::controller::ReadHypothesis(request);
  if (!hypothesis.ok()) {
    CHECK_THAT(!hypothesis.status().message().empty(), "an error without a message");
    return 0;
  }
  CHECK_THAT(names.ok(), "a job whose names cannot be read");
  CHECK_THAT(!hypothesis->job.meta.namespace_name.empty(), "a job without a namespace");
  CHECK_THAT(hypothesis->job.meta.namespace_name == names->job.namespace_name &&
                 hypothesis->job.meta.name == names->job.name,
             "a job under another name than its rights were looked at");
  CHECK_THAT(hypothesis->changes.size() <= static_cast<size_t>(asterism::controller::kChangesMax),
             "more changes than may be");
  return 0;
}
