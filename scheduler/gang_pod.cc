#include "scheduler/gang_pod.h"

#include <charconv>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/strings.h"

namespace asterism::scheduler {
namespace {

constexpr size_t kUidLetters = 5;

// Takes "<number>" from the front.
bool TakeNumber(std::string_view& text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return error == std::errc() && number >= 0;
}

bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) {
    return false;
  }
  text.remove_prefix(prefix.size());
  return true;
}

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

std::optional<GangPodNumbers> ReadGangPodName(std::string_view name, std::string_view job,
                                              std::string_view job_uid) {
  GangPodNumbers numbers;
  const bool good = TakePrefix(name, job) && TakePrefix(name, "-") &&
                    TakePrefix(name, job_uid.substr(0, kUidLetters)) && TakePrefix(name, "-r") &&
                    TakeNumber(name, numbers.first_rank) && TakePrefix(name, "-e") &&
                    TakeNumber(name, numbers.epoch) && name.empty();
  return good ? std::optional(numbers) : std::nullopt;
}

}  // namespace asterism::scheduler
