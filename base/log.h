// File: base/log.h
//
// Structured logging on spdlog: an event name first, then key=value fields.
//
//   LogInfo("gang_placed", {{"gang", name}, {"epoch", 3}, {"nodes", 64}});
//   -> 2026-11-30T06:00:00.123Z I gang_placed gang=research/llama epoch=3 nodes=64
//
// With LogFormat::kJson a line is one JSON object. Values of foreign origin are escaped, so a line
// stays one line. Never log a secret: there is no redaction here.
// Thread-safety: yes. Cost: formatting on the caller, writing on spdlog's sink (stderr).
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace asterism::base {

enum class LogFormat { kText, kJson };
enum class LogLevel { kDebug, kInfo, kWarning, kError };

// One value of a log line. Implicit, so that call sites stay readable.
class LogField {
 public:
  LogField(std::string_view key, std::string_view value) : key_(key), value_(value) {}  // NOLINT
  LogField(std::string_view key, const std::string& value) : key_(key), value_(value) {}
  LogField(std::string_view key, const char* value) : key_(key), value_(value) {}
  LogField(std::string_view key, int64_t value)
      : key_(key), value_(std::to_string(value)), number_(true) {}
  LogField(std::string_view key, uint64_t value)
      : key_(key), value_(std::to_string(value)), number_(true) {}
  LogField(std::string_view key, int value) : LogField(key, int64_t{value}) {}
  LogField(std::string_view key, double value)
      : key_(key), value_(std::to_string(value)), number_(std::isfinite(value)) {}

  std::string_view key() const { return key_; }
  const std::string& value() const { return value_; }
  bool number() const { return number_; }

 private:
  std::string_view key_;
  std::string value_;
  bool number_ = false;
};

using LogFields = std::initializer_list<LogField>;

// Call once at the start of a program. Before that, text at kInfo goes to stderr.
void SetUpLog(LogFormat format, LogLevel level);

void Log(LogLevel level, std::string_view event, LogFields fields);
inline void LogDebug(std::string_view event, LogFields fields = {}) {
  Log(LogLevel::kDebug, event, fields);
}
inline void LogInfo(std::string_view event, LogFields fields = {}) {
  Log(LogLevel::kInfo, event, fields);
}
inline void LogWarning(std::string_view event, LogFields fields = {}) {
  Log(LogLevel::kWarning, event, fields);
}
inline void LogError(std::string_view event, LogFields fields = {}) {
  Log(LogLevel::kError, event, fields);
}

// Lines that could not be written (the disk is full, nobody reads) since the last call. Logging
// never fails and never waits because of it.
uint64_t TakeLostLogLines();

// Formats a line without time and level; exposed for tests.
std::string FormatLogLine(LogFormat format, std::string_view event, LogFields fields);

}  // namespace asterism::base
