#include "scheduler/gang_pod.h"

#include "absl/strings/str_cat.h"
#include "base/strings.h"

namespace asterism::scheduler {
namespace {

constexpr size_t kUidLetters = 5;

}  // namespace

std::string GangInstance(std::string_view job, std::string_view job_uid) {
  return absl::StrCat(base::ToAbsl(job), "-", base::ToAbsl(job_uid.substr(0, kUidLetters)));
}

// The extender makes one for each call: hence no format string.
std::string GangPodName(std::string_view job, std::string_view job_uid, int64_t first_rank,
                        int64_t epoch) {
  return absl::StrCat(base::ToAbsl(job), "-", base::ToAbsl(job_uid.substr(0, kUidLetters)), "-r",
                      first_rank, "-e", epoch);
}

}  // namespace asterism::scheduler
