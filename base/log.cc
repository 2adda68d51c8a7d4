#include "base/log.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/check.h"
#include "fmt/format.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace asterism::base {
namespace {

struct LogState {
  LogFormat format = LogFormat::kText;
  std::shared_ptr<spdlog::logger> logger;
};

LogState MakeState(LogFormat format, LogLevel level) {
  LogState state{format, std::make_shared<spdlog::logger>(
                             "asterism", std::make_shared<spdlog::sinks::stderr_sink_mt>())};
  state.logger->set_pattern(format == LogFormat::kJson
                                ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})"
                                : "%Y-%m-%dT%H:%M:%S.%eZ %L %v",
                            spdlog::pattern_time_type::utc);
  static constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                          spdlog::level::warn, spdlog::level::err};
  state.logger->set_level(kLevels[static_cast<int>(level)]);
  state.logger->flush_on(spdlog::level::debug);
  return state;
}

LogState& State() {
  static LogState& state = *new LogState(MakeState(LogFormat::kText, LogLevel::kInfo));
  return state;
}

std::atomic<uint64_t>& LostLines() {
  static std::atomic<uint64_t> lines = 0;
  return lines;
}

// Quotes what would break a key=value line; escapes control characters in both formats.
void AppendEscaped(std::string& line, std::string_view text) {
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      line += '\\';
      line += letter;
    } else if (byte < 0x20 || byte == 0x7f) {
      fmt::format_to(std::back_inserter(line), "\\u{:04x}", byte);
    } else {
      line += letter;
    }
  }
}

bool NeedsQuotes(std::string_view text) {
  if (text.empty()) {
    return true;
  }
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte <= ' ' || letter == '"' || letter == '=' || letter == '\\' || byte == 0x7f) {
      return true;
    }
  }
  return false;
}

void AppendQuoted(std::string& line, std::string_view text) {
  line += '"';
  AppendEscaped(line, text);
  line += '"';
}

}  // namespace

void SetUpLog(LogFormat format, LogLevel level) {
  State() = MakeState(format, level);
}

std::string FormatLogLine(LogFormat format, std::string_view event, LogFields fields) {
  std::string line;
  if (format == LogFormat::kJson) {
    line += "\"event\":";
    AppendQuoted(line, event);
    for (const LogField& field : fields) {
      line += ',';
      AppendQuoted(line, field.key());
      line += ':';
      field.number() ? void(line += field.value()) : AppendQuoted(line, field.value());
    }
    return line;
  }
  line += event;
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key();
    line += '=';
    NeedsQuotes(field.value()) ? AppendQuoted(line, field.value()) : void(line += field.value());
  }
  return line;
}

void Log(LogLevel level, std::string_view event, LogFields fields) {
  static constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                          spdlog::level::warn, spdlog::level::err};
  LogState& state = State();
  const auto spdlog_level = kLevels[static_cast<int>(level)];
  if (state.logger->should_log(spdlog_level)) {
    state.logger->log(spdlog_level, "{}", FormatLogLine(state.format, event, fields));
    if (std::ferror(stderr) != 0) {
      std::clearerr(stderr);
      LostLines().fetch_add(1, std::memory_order_relaxed);
    }
  }
}

uint64_t TakeLostLogLines() {
  return LostLines().exchange(0, std::memory_order_relaxed);
}

void CheckFailed(const char* file, int line, const char* condition, std::string_view message) {
  fmt::print(stderr, "{}:{}: check failed: {}: {}\n", file, line, condition, message);
  std::abort();
}

bool ReportBug(const char* file, int line, const char* condition, std::string_view message) {
  LogError("bug", {{"file", file}, {"line", line}, {"condition", condition}, {"message", message}});
#ifndef NDEBUG
  std::abort();
#endif
  return true;
}

}  // namespace asterism::base
