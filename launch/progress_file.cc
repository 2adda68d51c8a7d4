#include "launch/progress_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "nlohmann/json.hpp"

namespace asterism::launch {
namespace {

constexpr off_t kReadMax = off_t{64} << 10;
// A file written twice within one tick of its file system's clock looks the same the second time.
constexpr int kLooksUnchanged = 3;

bool IsWordCharacter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' ||
         c == '-' || c == '.';
}

bool IsNoFiniteNumber(const std::string& word) {
  if (word == "NaN" || word == "Infinity" || word == "-Infinity") {
    return true;
  }
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  return (word[0] == '-' || (word[0] >= '0' && word[0] <= '9')) && *end == '\0' &&
         std::isinf(value);
}

// Numbers that JSON or a double cannot say become texts, which no key takes for a number.
std::string WithQuotedNumbers(std::string_view line) {
  std::string result;
  bool in_text = false;
  for (size_t i = 0; i < line.size();) {
    if (in_text || !IsWordCharacter(line[i])) {
      if (in_text && line[i] == '\\' && i + 1 < line.size()) {
        result.push_back(line[i++]);
      } else if (line[i] == '"') {
        in_text = !in_text;
      }
      result.push_back(line[i++]);
      continue;
    }
    size_t end = i;
    while (end < line.size() && IsWordCharacter(line[end])) {
      ++end;
    }
    const std::string word(line.substr(i, end - i));
    result += IsNoFiniteNumber(word) ? "\"" + word + "\"" : word;
    i = end;
  }
  return result;
}

double FiniteNumber(const nlohmann::json& object, const char* key, std::string& problem) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) {
    return 0;
  }
  if (found->is_number()) {
    const auto value = found->get<double>();
    if (std::isfinite(value) && value >= 0) {
      return value;
    }
  }
  problem = std::string("a line has a \"") + key +
            "\" that is no finite number of 0 or more: it is left out";
  return 0;
}

}  // namespace

ProgressLine ParseProgressLine(std::string_view line) {
  ProgressLine result;
  nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) {
    object = nlohmann::json::parse(WithQuotedNumbers(line), nullptr, false);
  }
  const auto step = object.is_object() ? object.find("step") : object.end();
  const bool whole = step != object.end() && step->is_number_integer() &&
                     (step->is_number_unsigned() ? step->get<uint64_t>() <= uint64_t{INT64_MAX}
                                                 : step->get<int64_t>() >= 0);
  if (!whole) {
    result.problem = "a line is no JSON object with a whole \"step\" from 0 to 2^63 - 1";
    return result;
  }
  ProgressReading reading{.step = step->get<int64_t>()};
  reading.step_time_milliseconds = FiniteNumber(object, "stepTimeMilliseconds", result.problem);
  reading.tokens_per_second = FiniteNumber(object, "tokensPerSecond", result.problem);
  result.reading = reading;
  return result;
}

// Whether the file has to be read again.
bool ProgressFile::Changed(const struct stat& now) {
  const auto same_time = [](const timespec& a, const timespec& b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
  };
  const bool same_file = now.st_dev == seen_.st_dev && now.st_ino == seen_.st_ino;
  const bool same = same_file && now.st_size == seen_.st_size &&
                    same_time(now.st_mtim, seen_.st_mtim) && same_time(now.st_ctim, seen_.st_ctim);
  if (!same_file) {
    line_at_ = -1;
  }
  seen_ = now;
  looks_unchanged_ = same ? std::min(looks_unchanged_ + 1, kLooksUnchanged + 1) : 0;
  return looks_unchanged_ <= kLooksUnchanged;
}

// `text` stands at `from` of the file, and is lines. From the last one back to one with a step.
bool ProgressFile::TakeNewest(std::string_view text, off_t from) {
  bool is_last = true;
  while (!text.empty()) {
    text.remove_suffix(1);  // its end
    const size_t before = text.rfind('\n');
    const size_t begin = before == std::string_view::npos ? 0 : before + 1;
    const std::string_view line = text.substr(begin);
    text = text.substr(0, begin);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
      continue;
    }
    const off_t at = from + static_cast<off_t>(begin);
    const bool known = at == line_at_ && line == line_;
    const ProgressLine parsed =
        known ? ProgressLine{newest_, line_problem_} : ParseProgressLine(line);
    if (is_last && !parsed.problem.empty()) {
      problem_ = path_ + ": " + parsed.problem;
    }
    is_last = false;
    if (parsed.reading) {
      newest_ = parsed.reading;
      line_at_ = at;
      line_ = std::string(line);
      line_problem_ = parsed.problem;
      return !known;
    }
  }
  return false;
}

bool ProgressFile::Look() {
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) {
    problem_ = errno == ENOENT ? "" : path_ + ": " + strerror(errno);
    seen_ = {};
    return false;
  }
  struct stat status {};
  bool newer = false;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    problem_ = path_ + ": is no regular file";
    seen_ = {};
  } else if (Changed(status)) {
    problem_.clear();
    const off_t from = std::max<off_t>(0, status.st_size - kReadMax);
    std::string text(static_cast<size_t>(status.st_size - from), '\0');
    const ssize_t got = text.empty() ? 0 : pread(file, text.data(), text.size(), from);
    if (got < 0) {
      problem_ = path_ + ": " + strerror(errno);
    }
    text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    // Up to the last line that is complete; and where we jumped, not the half of the first.
    const size_t end = text.rfind('\n');
    const size_t begin = from > 0 ? text.find('\n') + 1 : 0;
    if (end != std::string::npos && begin <= end) {
      newer = TakeNewest(std::string_view(text).substr(begin, end + 1 - begin),
                         from + static_cast<off_t>(begin));
    }
  }
  close(file);
  return newer;
}

}  // namespace asterism::launch
