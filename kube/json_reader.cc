#include "kube/json_reader.h"

#include <charconv>
#include <memory>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/strings.h"
#include "fmt/format.h"

namespace asterism::kube {
namespace {

constexpr size_t kMaxJsonBytes = size_t{64} << 20;
// The API server takes 10,000 levels; an object that it keeps must never end a watch.
constexpr size_t kMaxJsonDepth = 10'100;
// A parser that has grown beyond this is not kept.
constexpr size_t kKeptParserBytes = size_t{4} << 20;

// Parsers keep their memory from one use to the next; nested readers make new ones.
std::unique_ptr<simdjson::dom::parser>& SpareParser() {
  thread_local std::unique_ptr<simdjson::dom::parser> spare;
  return spare;
}

}  // namespace

JsonReader::JsonReader() : parser_(std::move(SpareParser())) {
  if (parser_ == nullptr) {
    parser_ = std::make_unique<simdjson::dom::parser>(kMaxJsonBytes);
  }
}

JsonReader::~JsonReader() {
  if (parser_->capacity() <= kKeptParserBytes) {
    SpareParser() = std::move(parser_);
  }
}

absl::StatusOr<JsonObject> JsonReader::Parse(std::string_view text) {
  if (text.size() > kMaxJsonBytes) {
    return absl::InvalidArgumentError(fmt::format("JSON text is too long: {} bytes", text.size()));
  }
  if (parser_->max_depth() != kMaxJsonDepth || parser_->capacity() < text.size()) {
    if (parser_->allocate(text.size(), kMaxJsonDepth) != simdjson::SUCCESS) {
      return absl::ResourceExhaustedError("no memory to parse JSON");
    }
  }
  JsonElement root;
  if (const auto error = parser_->parse(text.data(), text.size()).get(root); error) {
    return absl::InvalidArgumentError(
        fmt::format("not valid JSON: {}", simdjson::error_message(error)));
  }
  JsonObject object;
  if (root.get(object) != simdjson::SUCCESS) {
    return absl::InvalidArgumentError("JSON text is not an object");
  }
  return object;
}

bool JsonReader::Get(const JsonObject& object, std::string_view key, JsonElement& element) {
  return object.at_key(key).get(element) == simdjson::SUCCESS && !element.is_null();
}

void JsonReader::Complain(std::string_view key, std::string_view wanted) {
  if (status_.ok()) {
    status_ = absl::InvalidArgumentError(fmt::format("field {} is not {}", key, wanted));
  }
}

std::string JsonReader::Text(const JsonObject& object, std::string_view key) {
  JsonElement element;
  std::string_view text;
  if (Get(object, key, element) && element.get(text) != simdjson::SUCCESS) {
    Complain(key, "a string");
  }
  return std::string(text);
}

int64_t JsonReader::Integer(const JsonObject& object, std::string_view key) {
  JsonElement element;
  int64_t number = 0;
  if (Get(object, key, element) && element.get(number) != simdjson::SUCCESS) {
    Complain(key, "an integer");
  }
  return number;
}

bool JsonReader::Flag(const JsonObject& object, std::string_view key) {
  JsonElement element;
  bool flag = false;
  if (Get(object, key, element) && element.get(flag) != simdjson::SUCCESS) {
    Complain(key, "true or false");
  }
  return flag;
}

absl::Time JsonReader::Time(const JsonObject& object, std::string_view key, absl::Time absent) {
  JsonElement element;
  if (!Get(object, key, element)) {
    return absent;
  }
  std::string_view text;
  absl::Time time;
  if (element.get(text) != simdjson::SUCCESS ||
      !absl::ParseTime(absl::RFC3339_full, base::ToAbsl(text), &time, nullptr)) {
    Complain(key, "a time (RFC 3339)");
    return absent;
  }
  return time;
}

void JsonReader::Child(const JsonObject& object, std::string_view key,
                       absl::FunctionRef<void(const JsonObject&)> visit) {
  JsonElement element;
  if (!Get(object, key, element)) {
    return;
  }
  JsonObject child;
  if (element.get(child) != simdjson::SUCCESS) {
    Complain(key, "an object");
    return;
  }
  visit(child);
}

void JsonReader::Each(const JsonObject& object, std::string_view key,
                      absl::FunctionRef<void(const JsonObject&)> visit) {
  JsonElement element;
  if (!Get(object, key, element)) {
    return;
  }
  simdjson::dom::array array;
  if (element.get(array) != simdjson::SUCCESS) {
    Complain(key, "a list");
    return;
  }
  for (const JsonElement member : array) {
    JsonObject child;
    if (member.get(child) != simdjson::SUCCESS) {
      Complain(key, "a list of objects");
      return;
    }
    visit(child);
  }
}

void JsonReader::EachPair(const JsonObject& object, std::string_view key,
                          absl::FunctionRef<void(std::string_view, std::string_view)> visit) {
  Child(object, key, [&](const JsonObject& map) {
    for (const auto member : map) {
      std::string_view text;
      int64_t number = 0;
      if (member.value.get(text) == simdjson::SUCCESS) {
        visit(member.key, text);
      } else if (member.value.get(number) == simdjson::SUCCESS) {
        visit(member.key, std::to_string(number));
      } else {
        Complain(key, "a map of strings");
      }
    }
  });
}

void JsonReader::EachText(const JsonObject& object, std::string_view key,
                          absl::FunctionRef<void(std::string_view)> visit) {
  JsonElement element;
  if (!Get(object, key, element)) {
    return;
  }
  simdjson::dom::array array;
  if (element.get(array) != simdjson::SUCCESS) {
    Complain(key, "a list");
    return;
  }
  for (const JsonElement member : array) {
    std::string_view text;
    if (member.get(text) != simdjson::SUCCESS) {
      Complain(key, "a list of strings");
      return;
    }
    visit(text);
  }
}

}  // namespace asterism::kube
